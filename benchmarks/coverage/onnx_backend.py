"""ONNX's own backend suite: which operators does the product convert, and are their outputs right?

    python -m benchmarks.coverage.onnx_backend
    python -m benchmarks.coverage.onnx_backend --sample 100      # a quick look
    python -m benchmarks.coverage.onnx_backend --cases conv --failed

Each case is a model with inputs and expected outputs. Its file goes through `load_network`, conversion,
compilation without schedules, and the comparison of outputs; then its outputs are compared with the expected
ones at the case's tolerances. Sizes, axes and other operands of SETTINGS, which a network has as constants,
become constants. 2,024 cases, of which the package onnx builds most when the suite begins (15 s).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from .cases import Case, Subject

BENCHMARK, LIMIT_S = "coverage_onnx_backend", 120.0

KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted")
"""Kinds of cases that need no download."""

SETTINGS: Mapping[str, Sequence[int]] = {
    **dict.fromkeys(("Reshape", "Expand", "Tile", "Squeeze", "Unsqueeze", "TopK", "Trilu", "CumSum"), (1,)),
    **dict.fromkeys(("AffineGrid", "CenterCropPad", "Split", "SplitToSequence", "CumProd", "Upsample"), (1,)),
    **{f"Reduce{name}": (1,) for name in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare")},
    **dict.fromkeys(("ReduceLogSum", "ReduceLogSumExp", "OneHot"), (1,)),
    **dict.fromkeys(("ConstantOfShape", "If", "BlackmanWindow", "HannWindow", "HammingWindow"), (0,)),
    **dict.fromkeys(("Range", "MelWeightMatrix"), (0, 1, 2, 3, 4)),
    **dict.fromkeys(("Slice", "Resize"), (1, 2, 3, 4)),
    **{"Loop": (0, 1), "Pad": (1, 2, 3), "Dropout": (1, 2), "Col2Im": (1, 2), "DFT": (1, 2), "STFT": (1, 3)},
    **{"NonMaxSuppression": (2, 3, 4), "MaxUnpool": (2,), "OptionalHasElement": ()},
}
"""Operands by operator that are sizes, axes, counts or conditions: constants in a network."""

_SMALL = {
    getattr(TensorProto, name)
    for name in dict(TensorProto.DataType.items())
    if name.startswith(("FLOAT8", "FLOAT4", "INT4", "UINT4", "INT2", "UINT2", "BFLOAT16"))
}
_TRAINING = ("ai.onnx.preview.training",)

STRINGS, SEQUENCES, OPTIONAL = "strings", "sequences", "optional values"
SMALL, COMPLEX, TRAINING = "bfloat16, float8, integers below 8 bits", "complex numbers", "training"
UNSUPPORTED = (STRINGS, SEQUENCES, OPTIONAL, SMALL, COMPLEX, TRAINING)
"""Families of cases that the product refuses by construction."""


def backend_cases(models_in: Path, kinds: Sequence[str] = KINDS) -> Iterator[Case]:
    """Cases of the package onnx; their files are written below `models_in` when they run."""
    from onnx.backend.test.loader import load_model_tests

    for kind in kinds:
        found = {case.name: case for case in load_model_tests(kind=kind)}
        for name in sorted(found):
            original = found.get(name.removesuffix("_expanded"))
            yield as_case(found[name], models_in, found[name] if original is None else original)


def as_case(one: Any, models_in: Path, original: Any) -> Case:
    """A `TestCase` of the package onnx as a case of a suite; `original` is the case before its expansion."""
    name = one.name.removeprefix("test_")
    folder = models_in / one.kind / name
    if one.model is None:
        source = Path(one.model_dir)
        load = partial(from_folder, source, folder, one.rtol, one.atol)
        return Case(f"{one.kind}/{name}", family_of(onnx.load(source / "model.onnx"), one.kind), load)
    inputs, outputs = one.data_sets[0]
    family = family_of(one.model, one.kind)
    settings = sorted(settings_of(one.model.graph) | settings_of(original.model.graph))
    content = one.model.SerializeToString(), list(inputs), list(outputs), settings
    return Case(f"{one.kind}/{name}", family, partial(from_arrays, *content, folder, one.rtol, one.atol))


def family_of(model: Any, kind: str) -> str:
    """Kind of a case, or the unsupported type of values that it has."""
    graph = model.graph
    if any(one.domain in _TRAINING for one in model.opset_import) or any(
        node.domain in _TRAINING for node in graph.node
    ):
        return TRAINING
    types = [value.type for value in (*graph.input, *graph.output, *graph.value_info)]
    if any(one.HasField("optional_type") for one in types):
        return OPTIONAL
    if any(one.HasField("sequence_type") for one in types):
        return SEQUENCES
    elements = {one.tensor_type.elem_type for one in types} | {one.data_type for one in graph.initializer}
    for node in graph.node:
        elements |= {one.t.data_type for one in node.attribute if one.name == "value" and one.HasField("t")}
    if TensorProto.STRING in elements:
        return STRINGS
    if elements & {TensorProto.COMPLEX64, TensorProto.COMPLEX128}:
        return COMPLEX
    if elements & _SMALL:
        return SMALL
    operators = {node.op_type for node in graph.node}
    if any(name.startswith(("Sequence", "ConcatFromSequence", "SplitToSequence")) for name in operators):
        return SEQUENCES
    return "node, expanded" if kind == "node" and "_expanded" in graph.name else kind


def from_folder(source: Path, folder: Path, relative: float, absolute: float) -> Subject:
    """Subject of a case on disk."""
    model = onnx.load(source / "model.onnx")
    data = source / "test_data_set_0"
    if not any(value.type.HasField("tensor_type") for value in (*model.graph.input, *model.graph.output)):
        return subject(model, [], [], (), folder, relative, absolute)
    inputs, outputs = (
        [
            numpy_helper.to_array(onnx.load_tensor(path))
            for path in sorted(data.glob(f"{kind}_*.pb"), key=lambda path: int(path.stem.rpartition("_")[2]))
        ]
        for kind in ("input", "output")
    )
    return subject(model, inputs, outputs, sorted(settings_of(model.graph)), folder, relative, absolute)


def from_arrays(
    model: bytes,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    settings: Sequence[str],
    folder: Path,
    relative: float,
    absolute: float,
) -> Subject:
    """Subject of a case in memory."""
    return subject(onnx.load_from_string(model), inputs, outputs, settings, folder, relative, absolute)


def subject(
    model: Any,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    settings: Sequence[str],
    folder: Path,
    relative: float,
    absolute: float,
) -> Subject:
    """The model as a network with its inputs; the inputs named in `settings` become constants."""
    from dataclasses import replace

    from foretune.compiler.networks import load_network

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.onnx"
    onnx.save(model, path)
    weights = {one.name for one in model.graph.initializer}
    named = [value.name for value in model.graph.input if value.name not in weights]
    if not all(isinstance(one, TensorProto | np.ndarray | np.generic) for one in (*inputs, *outputs)):
        inputs = outputs = ()  # sequences and optional values: the product refuses the file
    arrays = dict(zip(named, map(_array, inputs), strict=False))
    specs: list[Any] = [
        {"value": array.tolist()}
        if name in settings
        else {"shape": list(array.shape), "dtype": str(array.dtype)}
        for name, array in arrays.items()
    ]
    network = load_network(str(path), inputs=specs if arrays else None)
    kept = tuple(array for name, array in arrays.items() if name not in settings)
    network = replace(network, inputs=kept)
    return Subject(network, [_array(one) for one in outputs], relative, absolute)


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def settings_of(graph: Any) -> set[str]:
    """Names of the values that nodes of a graph take as sizes, axes, counts or conditions."""
    found: set[str] = set()
    for node in graph.node:
        for place in SETTINGS.get(node.op_type, ()):
            if place < len(node.input) and node.input[place]:
                found.add(node.input[place])
    return found


def main(words: Sequence[str] | None = None) -> None:
    from . import conversion_check, suite

    this = sys.modules[__name__]
    arguments = suite.arguments_of(this, BENCHMARK, LIMIT_S, words)
    cases = list(backend_cases((arguments.runs_in / "models").resolve()))
    further = {"unsupported": list(UNSUPPORTED)}
    check = conversion_check.check_operator
    suite.run_suite(this, BENCHMARK, cases, check, limit_s=LIMIT_S, further=further, words=words)


if __name__ == "__main__":
    from benchmarks.coverage import onnx_backend  # cases are built in processes that import it by this name

    onnx_backend.main()
