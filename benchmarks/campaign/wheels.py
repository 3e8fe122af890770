"""Wheels for a machine without a package index, in folders of limited size.

This module requires only Python, because it runs before anything is installed.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import lzma
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .limits import MB, CampaignError

CHECKOUT = Path(__file__).resolve().parents[2]
MANIFEST = "manifest.json"
# The index has this pure Python package only as source, so its wheel is built here.
SOURCE_ONLY = "antlr4-python3-runtime==4.9.*"
CUDA_WHEELS = (
    *("cuda-bindings>=13,<14", "cuda-pathfinder", "nvidia-cuda-nvrtc>=13,<14", "nvidia-cuda-runtime>=13,<14"),
    *("nvidia-cuda-cccl>=13,<14", "nvidia-cuda-crt>=13,<14"),
)
"""CUDA runtime of TVM, and the compiler NVRTC with its headers."""
EXTRAS = ("xgboost", "networks")
"""Optional dependencies of the package that a campaign requires."""
# glibc 2.5 to 2.35, newest first; pip does not derive older tags from a newer one.
PLATFORMS = (*(f"manylinux_2_{minor}_x86_64" for minor in range(35, 4, -1)), "manylinux2014_x86_64")

BLOCK = 32 * MB
"""Bytes of a wheel that are compressed together. Threads compress and decompress blocks in parallel."""


@dataclass(frozen=True)
class Wheel:
    """Wheel of the bundle: a zip file without compression, cut into blocks that LZMA compresses.

    Zip's own compression makes TVM's wheel 1.5 times as large, so that it takes one more call to carry.
    """

    name: str
    sha256: str
    """Hash of the concatenated compressed blocks."""
    blocks: list[int]
    """Size of each compressed block."""
    pieces: list[str]
    """Files whose concatenation is the compressed blocks."""


def bundle(out: Path, part_size: int, python: str, with_torch: bool, given: Path | None = None) -> None:
    """Downloads the wheels for an offline Linux machine into folders of at most `part_size` bytes.

    `given` is the output of `pip freeze` on that machine, whose packages are left out.
    """
    if out.exists() and any(out.iterdir()):
        raise CampaignError(f"--out {out}: is not empty; remove it or name another folder")
    with tempfile.TemporaryDirectory() as folder:
        wheels = Path(folder, "wheels")
        download(requirements(), wheels, python, with_torch)
        if given is not None:
            leave_out(wheels, not_required(packages_in(given)))
        pack(sorted(wheels.glob("*.whl")), out, part_size)
    loads = sorted(out.glob("load-*"))
    for load in loads:
        files = list(load.iterdir())
        print(f"{load}: {len(files)} files, {sum(file.stat().st_size for file in files) / 1e6:.1f} MB")


def requirements() -> list[str]:
    """Requirements of the package and of its extras for a campaign, and the CUDA wheels."""
    project = project_table(CHECKOUT)
    extras = [line for extra in EXTRAS for line in project["optional-dependencies"][extra]]
    return [*project["dependencies"], *extras, *CUDA_WHEELS]


def project_table(checkout: Path) -> dict[str, Any]:
    """Table `project` of the pyproject.toml of a checkout."""
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        from pip._vendor import tomli as tomllib  # type: ignore[no-redef]
    table = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))
    return dict(table["project"])


def download(needed: Sequence[str], into: Path, python: str, with_torch: bool) -> None:
    """Downloads the wheels of `needed` and of their requirements, for another Python on Linux."""
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    with tempfile.TemporaryDirectory() as folder:
        _pip("wheel", "--no-deps", "--wheel-dir", folder, SOURCE_ONLY)
        stand_in = [] if with_torch else _without_torch(needed, Path(folder))
        _pip(
            *("download", "--dest", str(into), "--find-links", folder, "--only-binary", ":all:"),
            *("--implementation", "cp", "--python-version", python, *platforms, *stand_in, *needed),
        )
    if not with_torch:
        next(into.glob("torch-*.whl")).unlink()


def packages_in(listing: Path) -> set[str]:
    """Names of the packages in the output of `pip freeze` or `pip list`, as in the file names of wheels."""
    try:
        lines = listing.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise CampaignError(
            f"--given {listing}: {error.strerror}; give a file that pip freeze wrote"
        ) from error
    found = (re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", line) for line in lines)
    return {_as_in_wheels(match[0]) for match in found if match}


def not_required(there: Collection[str]) -> set[str]:
    """Packages of a machine that need not be carried: the CUDA wheels are carried together or not at all.

    NVRTC and its headers are files of one folder, which must come from the same place.
    """
    cuda = {_as_in_wheels(re.split("[<>=]", needed)[0]) for needed in CUDA_WHEELS}
    return set(there) if cuda <= set(there) else set(there) - cuda


def leave_out(wheels: Path, names: Collection[str]) -> None:
    """Removes the wheels of packages with these names."""
    for wheel in wheels.glob("*.whl"):
        if _as_in_wheels(wheel.name.split("-")[0]) in names:
            wheel.unlink()


def _as_in_wheels(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


def _pip(*words: str) -> None:
    if subprocess.run([sys.executable, "-m", "pip", *words]).returncode:
        raise CampaignError(f"pip {words[0]} failed; its message is above")


def _without_torch(needed: Sequence[str], folder: Path) -> list[str]:
    """Options that replace torch, which has gigabytes, by an empty wheel: the CUDA machine has its own."""
    lower = next(word for word in needed if word.startswith("torch>=")).removeprefix("torch>=").split(",")[0]
    version = f"{lower}+provided"
    info = f"torch-{version}.dist-info"
    with zipfile.ZipFile(folder / f"torch-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    constraint = folder / "constraint.txt"
    constraint.write_text(f"torch=={version}\n")
    return ["--constraint", str(constraint)]


def compressed(wheel: bytes) -> list[bytes]:
    """Compressed blocks of a wheel; see `Wheel`."""
    plain = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(wheel)) as given, zipfile.ZipFile(plain, "w") as stored:
        for entry in given.infolist():
            stored.writestr(zipfile.ZipInfo(entry.filename, entry.date_time), given.read(entry))
    content = plain.getvalue()
    with ThreadPoolExecutor() as pool:
        return list(
            pool.map(lzma.compress, (content[at : at + BLOCK] for at in range(0, len(content), BLOCK)))
        )


def pack(files: Sequence[Path], out: Path, part_size: int) -> None:
    """Writes wheels into folders `out/load-NN` of at most `part_size` bytes, and splits larger wheels."""
    free: list[int] = []
    wheels = []
    contents = {path.name: compressed(path.read_bytes()) for path in files}
    for name, blocks in sorted(contents.items(), key=lambda one: -sum(map(len, one[1]))):
        content = b"".join(blocks)
        chunks = [content[start : start + part_size] for start in range(0, len(content), part_size)]
        pieces = []
        for number, chunk in enumerate(chunks):
            piece = f"{name}.part-{number:02d}"
            load = next((index for index, space in enumerate(free) if space >= len(chunk)), len(free))
            if load == len(free):
                free.append(part_size)
            free[load] -= len(chunk)
            folder = out / f"load-{load:02d}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / piece).write_bytes(chunk)
            pieces.append(piece)
        wheels.append(
            Wheel(name, hashlib.sha256(content).hexdigest(), [len(block) for block in blocks], pieces)
        )
    manifest = json.dumps([asdict(wheel) for wheel in wheels], indent=1) + "\n"
    for load in out.glob("load-*"):
        (load / MANIFEST).write_text(manifest)


def unpack(bundle: Path, into: Path) -> None:
    """Unpacks the wheels of a bundle into a folder. Their pieces may be in any folder of the bundle."""
    manifests = list(bundle.rglob(MANIFEST))
    if not manifests:
        raise CampaignError(f"--bundle {bundle}: has no {MANIFEST}; make one with the sub-command bundle")
    found = {path.name: path for path in bundle.rglob("*") if path.is_file()}
    wheels = [Wheel(**entry) for entry in json.loads(manifests[0].read_text())]
    missing = [piece for wheel in wheels for piece in wheel.pieces if piece not in found]
    if missing:
        raise CampaignError(
            f"--bundle {bundle}: lacks {', '.join(missing)}; carry all folders load-* of the bundle here"
        )
    into.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor() as pool:
        for wheel in wheels:
            content = b"".join(found[piece].read_bytes() for piece in wheel.pieces)
            if hashlib.sha256(content).hexdigest() != wheel.sha256:
                raise CampaignError(f"--bundle {bundle}: {wheel.name} was damaged in transit; carry it again")
            ends = [sum(wheel.blocks[: number + 1]) for number in range(len(wheel.blocks))]
            parts = [content[end - size : end] for end, size in zip(ends, wheel.blocks, strict=True)]
            install(b"".join(pool.map(lzma.decompress, parts)), into)


def install(wheel: bytes, packages: Path) -> None:
    """Writes the files of a wheel into a folder of packages, except scripts and data files."""
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        for entry in archive.infolist():
            first, _, rest = entry.filename.partition("/")
            name = entry.filename
            if first.endswith(".data"):
                kind, _, name = rest.partition("/")
                if kind not in ("purelib", "platlib"):
                    continue
            path = packages / name
            if not path.resolve().is_relative_to(packages.resolve()):
                raise CampaignError(f"{entry.filename}: leads out of the environment; make the bundle anew")
            if not entry.is_dir():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(entry))


def parse_size(text: str) -> int:
    """Bytes of "60M", "1G", "500K" or a plain number."""
    units = {"K": 10**3, "M": 10**6, "G": 10**9}
    digits, unit = (text[:-1], units[text[-1].upper()]) if text[-1:].upper() in units else (text, 1)
    if not digits.isdigit() or not int(digits):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write it like 60M")
    return int(digits) * unit
