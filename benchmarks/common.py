"""Common parts of all benchmarks: results with manifests, machine names, means, turns, runs that are kept.

Each result is `results/<benchmark>/<machine>/result.json`; `manifest.json` in the same folder describes its
origin:

    clock = start() ... write_result("networks", {"networks": rows}, clock, hardware)
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from foretune.dataset.hardware import Hardware

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"

MANIFEST_FIELDS = (
    *("benchmark", "machine", "variant", "command", "commit", "versions", "hardware"),
    *("started_at", "finished_at", "load", "reconstructed", "notes"),
)
"""Fields of every `manifest.json`. With `"reconstructed": true`, null stands for unknown values."""

DIGITS = 6
"""Significant digits of numbers in a result."""

_PACKAGES = (
    *("foretune", "apache-tvm", "torch", "numpy", "xgboost-cpu", "onnxruntime", "openvino"),
    *("pytorchcv", "timm", "torchvision", "transformers"),
)
_PLAIN = re.compile(r"[\[{]\n[^\[\]{}]*\n *[\]}]")
_BREAK = re.compile(r"\n *")
_FAMILIES = {"23": "zen2", "26": "zen5"}

T = TypeVar("T")


def argument_parser(module: str, *, out: bool = True) -> argparse.ArgumentParser:
    """Parser of a benchmark, whose help begins with the docstring of its main module, given by `__name__`.

    With `out`, it has the option `--out`, the folder of results.
    """
    main = sys.modules[module]
    name = main.__spec__.name.removesuffix(".__main__") if main.__spec__ else module
    parser = argparse.ArgumentParser(
        prog=f"python -m {name}", description=main.__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    if out:
        parser.add_argument("--out", type=Path, default=RESULTS, help="(%(default)s)")
    return parser


# Where and when a result was measured.


def machine_name(hardware: Mapping[str, Any]) -> str:
    """Short name of a machine by its hardware description: zen3, zen5, xeon-167, h100.

    `hardware` is the JSON form of `foretune.dataset.hardware.Hardware`. AMD's family 25 is Zen 4 if it has
    AVX-512, and Zen 3 otherwise.
    """
    details = hardware.get("details") or {}
    family, model = str(details.get("family", "")), str(details.get("model", ""))
    vendor = details.get("vendor")
    if vendor == "AuthenticAMD":
        wide = details.get("machine_vector_bits", hardware["vector_bits"]) >= 512
        return _FAMILIES.get(
            family, ("zen4" if wide else "zen3") if family == "25" else f"amd-{family}-{model}"
        )
    if vendor == "GenuineIntel":
        return f"xeon-{model}" if "Xeon" in hardware["name"] else f"intel-{model}"
    return "-".join("".join(c if c.isalnum() else " " for c in str(hardware["name"]).lower()).split())


def this_machine(target: str = "llvm") -> Hardware:
    """Hardware description of this machine's CPU for programs of `target`; the probe takes three seconds.

    For `cuda`, it describes the GPU. A tag of another machine's target gives the CPU.
    """
    if target == "cuda":
        from foretune.dataset.hardware import probe_cuda

        return probe_cuda()
    from foretune.compiler.tvm_compat import parse_target
    from foretune.dataset.hardware.target_hardware import target_hardware

    return target_hardware(parse_target(target))


@dataclass(frozen=True)
class Start:
    """Start of a measurement."""

    at: str
    """ISO 8601 with the time zone."""
    load: tuple[float, float, float]
    """Load averages of 1, 5 and 15 minutes."""
    stolen: tuple[float, float]
    """Ticks that the hypervisor took, and all ticks, since the machine started."""


def start() -> Start:
    """Records the time and the load of the machine; call it before the first measurement."""
    os.environ["FORETUNE_SERVE"] = "0"  # a served command starts faster than one of another user
    return Start(_now(), os.getloadavg(), _stolen_ticks())


def write_result(
    benchmark: str,
    result: Mapping[str, Any],
    begun: Start,
    hardware: Hardware | Mapping[str, Any],
    *,
    variant: str = "",
    notes: str = "",
    checkouts: Mapping[str, Path] | None = None,
    results: Path = RESULTS,
) -> Path:
    """Writes `result.json` and `manifest.json` into `results/<benchmark>/<machine>[-<variant>]`.

    Args:
        benchmark: name of the folder in `results/`.
        result: JSON values; numbers are kept with six significant digits.
        begun: value of `start`.
        hardware: description of the measuring machine.
        variant: distinguishes results of one benchmark on one machine.
        notes: one sentence with facts that the manifest does not contain otherwise.
        checkouts: for a comparison of commits, the folder of each by its name in the result.

    Prints and returns the folder.
    """
    described = dict(hardware) if isinstance(hardware, Mapping) else asdict(hardware)
    machine = machine_name(described)
    stolen, ticks = (now - then for now, then in zip(_stolen_ticks(), begun.stolen, strict=True))
    manifest = {
        "benchmark": benchmark,
        "machine": machine,
        "variant": variant,
        "command": command_line(sys.argv),
        "commit": revision(ROOT),
        "versions": versions(),
        "hardware": described,
        "started_at": begun.at,
        "finished_at": _now(),
        "load": {"before": begun.load, "after": os.getloadavg(), "stolen_share": stolen / max(ticks, 1)},
        "reconstructed": False,
        "notes": notes,
    }
    if checkouts is not None:
        manifest["checkouts"] = {name: revision(folder) for name, folder in checkouts.items()}
    folder = result_folder(results, benchmark, machine, variant)
    write_json(folder / "result.json", result)
    write_json(folder / "manifest.json", manifest)
    print(f"wrote {folder}")
    return folder


def result_folder(results: Path, benchmark: str, machine: str, variant: str = "") -> Path:
    """Folder of a benchmark's result on a machine."""
    return results / benchmark / (f"{machine}-{variant}" if variant else machine)


def command_line(arguments: Sequence[str]) -> str:
    """Command that started this process, with paths below the repository relative to it."""
    script, *rest = arguments
    path = Path(script)
    if path.is_absolute() and path.is_relative_to(ROOT):
        script = str(path.relative_to(ROOT))
    module = script.removesuffix("/__main__.py").removesuffix(".py").replace("/", ".")
    return " ".join(["python -m", module, *(word if " " not in word else f"'{word}'" for word in rest)])


def revision(folder: Path) -> str | None:
    """Commit of a checkout, with `+changes` if its files differ from it; None outside a checkout."""
    try:
        commit, changes = (
            subprocess.run(
                ["git", "-C", str(folder), *words], capture_output=True, text=True, check=True, timeout=30
            ).stdout.strip()
            for words in (("rev-parse", "HEAD"), ("status", "--porcelain", "--untracked-files=no"))
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{commit}+changes" if changes else commit


def versions() -> dict[str, str]:
    """Versions of Python and of the installed packages that results depend on."""
    found = {"python": sys.version.split()[0]}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _stolen_ticks() -> tuple[float, float]:
    """Zeros if the system does not report the values."""
    try:
        ticks = [float(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    except (OSError, IndexError, ValueError):
        return 0.0, 0.0
    return ticks[-1], sum(ticks)


# Files.


def write_json(path: Path, value: Any) -> None:
    """Writes rounded JSON atomically, so that a stop leaves either the old file or the new one.

    Lists and objects of plain values each fit on one line.
    """
    text = _PLAIN.sub(lambda found: _BREAK.sub(" ", found[0]), json.dumps(rounded(value), indent=1))
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.tmp")
    beside.write_text(text + "\n", encoding="utf-8")
    beside.replace(path)


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def rounded(value: Any, digits: int = DIGITS) -> Any:
    """The same JSON value with floats of `digits` significant digits; infinities and NaN become null."""
    if isinstance(value, Mapping):
        return {str(key): rounded(item, digits) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item, digits) for item in value]
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else None
    return value


def kept_run(
    path: Path,
    settings: Mapping[str, Any],
    make: Callable[[], T],
    *,
    again: bool = False,
    free: Sequence[str] = (),
    library: Path | None = None,
) -> T:
    """Result of an earlier run with these settings, or of `make`, which is then stored at `path`.

    `settings` and the result are JSON values. A run with other settings is repeated, except that the settings
    in `free` may differ; with `again`, every run is repeated. A stopped benchmark resumes. A path that ends
    in `.xz` is compressed. `library` is a file that `make` writes, too; a run without it is repeated.
    """
    wanted = json.loads(json.dumps(settings))
    if path.is_file() and not again and (library is None or library.is_file()):
        kept = json.loads(_bytes(path))
        if {**kept["settings"], **{name: wanted[name] for name in free}} == wanted:
            return kept["run"]
    if library is not None:
        path.unlink(missing_ok=True)  # it would describe another library if `make` is interrupted
    content = json.dumps({"settings": wanted, "run": make()}).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.tmp")
    beside.write_bytes(lzma.compress(content) if path.suffix == ".xz" else content)
    beside.replace(path)
    return json.loads(_bytes(path))["run"]


def _bytes(path: Path) -> bytes:
    content = path.read_bytes()
    return lzma.decompress(content) if path.suffix == ".xz" else content


def in_turns(contestants: Sequence[T], rounds: int) -> Iterator[tuple[int, T]]:
    """Yields every contestant once per round; each round begins with the next contestant.

    A slow hour of the machine, or the first position, then does not affect a single contestant.
    """
    for number in range(rounds):
        for place in range(len(contestants)):
            yield number, contestants[(number + place) % len(contestants)]


def warm_seconds(run: Callable[[], object], turn_s: float = 0.05) -> float:
    """Mean seconds of the calls within `turn_s`, after a call that primes the caches."""
    run()
    count, begun = 0, time.perf_counter()
    while (taken := time.perf_counter() - begun) < turn_s:
        run()
        count += 1
    return taken / count


# Means and ratios.


def geometric_mean(values: Sequence[float]) -> float:
    """Raises ValueError without values, or if one is not positive."""
    if not values or min(values) <= 0:
        raise ValueError(f"geometric mean of {list(values)}: give positive numbers, at least one")
    return math.exp(statistics.fmean(map(math.log, values)))


@dataclass(frozen=True)
class Spread:
    """Median, minimum and maximum of some numbers."""

    middle: float
    least: float
    most: float


def median_spread(values: Sequence[float]) -> Spread:
    """Median, minimum and maximum."""
    return Spread(statistics.median(values), min(values), max(values))


def geometric_spread(values: Sequence[float]) -> Spread:
    """Geometric mean, minimum and maximum."""
    return Spread(geometric_mean(values), min(values), max(values))


def log_standard_error(ratios: Sequence[float]) -> float | None:
    """Relative standard error of the geometric mean of ratios, None for fewer than two."""
    if len(ratios) < 2:
        return None
    return statistics.stdev(map(math.log, ratios)) / math.sqrt(len(ratios))
