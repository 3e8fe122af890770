"""Python environment of a campaign on a CUDA machine, made from a bundle of wheels.

This module requires only Python, because it runs before anything is installed. It unpacks the wheels without
pip: `bundle` has already resolved the requirements, and resolving them again is slow.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from .limits import CampaignError
from .wheels import CHECKOUT, CUDA_WHEELS, EXTRAS, MANIFEST, project_table, unpack

# TVM's CUDA library links to this runtime.
CUDA_RUNTIME = "libcudart.so.13"
LEAST_CUDA = 13000
"""Oldest CUDA version of a driver that runs this runtime, in the format of cuDriverGetVersion."""

CHECK = """
import importlib.metadata, sys
from packaging.requirements import Requirement
for line in importlib.metadata.requires(sys.argv[1]) or ():
    wanted = Requirement(line)
    if wanted.marker is None or wanted.marker.evaluate({"extra": "campaign"}):
        try:
            version = importlib.metadata.version(wanted.name)
        except importlib.metadata.PackageNotFoundError:
            print(f"{wanted} is missing")
        else:
            if not wanted.specifier.contains(version, prereleases=True):
                print(f"{wanted} is required, but {version} is installed")
"""
"""Program that prints the requirements that an environment does not meet."""


def make_environment(bundle: Path, folder: Path, checkout: Path = CHECKOUT) -> Path:
    """Python of an environment with the bundle, the checkout and the packages of this Python.

    Creates the environment if it does not exist. Raises CampaignError if it is incomplete.
    """
    python = folder / "bin" / "python"
    stamp = folder / "made-from"
    if folder.exists() and any(folder.iterdir()) and not (folder / "pyvenv.cfg").exists():
        raise CampaignError(f"--environment {folder}: is not an environment; give one that may be replaced")
    content = next(bundle.rglob(MANIFEST), None)
    made_from = f"{checkout}\n{content.read_text() if content else ''}"
    if stamp.exists() and stamp.read_text() == made_from:
        return python
    venv.create(folder, clear=True, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    unpack(bundle, packages)
    name = put_project(checkout, packages)
    # system-site-packages would skip the packages of this Python if it is in an environment itself.
    machine = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (packages / "this-machine.pth").write_text("\n".join([str(checkout / ".typing"), *machine]) + "\n")
    done = subprocess.run([python, "-c", CHECK, name], capture_output=True, text=True)
    if done.returncode or done.stdout:
        what = done.stdout.replace("\n", "; ") or f"{done.stderr}; "
        raise CampaignError(f"the environment is incomplete: {what}make the bundle with another --given")
    stamp.write_text(made_from)
    return python


def put_project(checkout: Path, packages: Path) -> str:
    """Writes the metadata of the checkout's package into a folder of packages, and returns its name.

    The extra "campaign" requires the optional packages that a campaign uses.
    """
    project = project_table(checkout)
    name, version = str(project["name"]), project["version"]
    info = packages / f"{name}-{version}.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {needed}" for needed in project.get("dependencies", ())]
    optional = project.get("optional-dependencies", {})
    extras = [line for extra in EXTRAS for line in optional.get(extra, ())]
    extras += CUDA_WHEELS
    lines += [f'Requires-Dist: {needed}; extra == "campaign"' for needed in extras]
    (info / "METADATA").write_text("\n".join(lines) + "\n")
    return name


def cuda_environment(python: Path) -> dict[str, str]:
    """Environment variables of this process, with the paths of the CUDA toolkit and runtime for TVM."""
    environment = dict(os.environ)
    nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if nvcc:
        environment.setdefault("CUDA_PATH", str(Path(nvcc).resolve().parents[1]))
    folders = [Path(environment.get("CUDA_PATH", "/usr/local/cuda"), "lib64")]
    roots = [*map(Path, sys.path), *python.parents[1].glob("lib/python*/site-packages")]
    folders += [path for root in roots for path in root.glob("nvidia/*/lib")]
    holding = [str(folder) for folder in folders if (folder / CUDA_RUNTIME).exists()]
    known = environment.get("LD_LIBRARY_PATH")
    environment["LD_LIBRARY_PATH"] = ":".join([*holding, *([known] if known else [])])
    return environment


def check_machine(dry_run: bool) -> None:
    """Raises CampaignError if the machine has no usable GPU, which no bundle can provide."""
    if dry_run:
        return
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise CampaignError("this machine has no NVIDIA driver; --dry-run needs none") from error
    if status := driver.cuInit(0):
        raise CampaignError(f"the NVIDIA driver finds no GPU (cuInit: error {status}); nvidia-smi says more")
    version = ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    if version.value < LEAST_CUDA:
        major, minor = divmod(version.value // 10, 100)
        raise CampaignError(
            f"the NVIDIA driver supports CUDA {major}.{minor}, but TVM requires {LEAST_CUDA // 1000}.0: "
            "use a machine with a newer driver"
        )
