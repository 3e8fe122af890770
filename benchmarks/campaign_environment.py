"""Python environment of a campaign on a CUDA machine, made of a bundle of wheels.

It needs nothing but Python, so that the campaign can make the environment.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.wheel_bundle import CHECKOUT, CUDA_RUNTIME_WHEEL, MANIFEST, CampaignError, unpack

# TVM's CUDA library is linked to this runtime.
CUDA_RUNTIME = "libcudart.so.13"


def make_environment(bundle: Path, folder: Path, checkout: Path = CHECKOUT) -> Path:
    """Python of an environment with the bundle, the checkout and all that this Python has; made once."""
    python = folder / "bin" / "python"
    stamp = folder / "made-from"
    if folder.exists() and any(folder.iterdir()) and not (folder / "pyvenv.cfg").exists():
        raise CampaignError(f"--environment {folder}: is no environment; name a folder that may be replaced")
    content = next(bundle.rglob(MANIFEST), None)
    made_from = f"{checkout}\n{content.read_text() if content else ''}"
    if stamp.exists() and stamp.read_text() == made_from:
        return python
    wheels = folder / "wheels"
    venv.create(folder, clear=True, symlinks=True)
    unpack(bundle, wheels)
    # Plain paths, because system-site-packages leads past this Python where it is of an environment itself.
    machine = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "this-machine.pth").write_text("\n".join(machine) + "\n")
    pip = [str(python), str(next(wheels.glob("pip-*.whl")) / "pip"), "install", "--quiet", "--no-compile"]
    pip += ["--no-index", "--find-links", str(wheels), "--no-warn-script-location"]
    for words in (
        # By its file, or an older one of the machine would do.
        [str(next(wheels.glob("setuptools-*.whl")))],
        ["--no-build-isolation", "--editable", f"{checkout}[xgboost]", CUDA_RUNTIME_WHEEL],
    ):
        done = subprocess.run([*pip, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise CampaignError(f"pip could not make the environment: {done.stdout}")
    stamp.write_text(made_from)
    return python


def cuda_environment(python: Path) -> dict[str, str]:
    """Variables of this process, and by which TVM finds the CUDA toolkit of the machine and its runtime."""
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
    """Says at once what a machine lacks that no bundle brings."""
    if dry_run:
        return
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise CampaignError("this machine has no NVIDIA driver; --dry-run needs none") from error
