"""Networks that draw random numbers: they are refused, since a compiled network would repeat one draw.

Works without TVM.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...errors import UserError
from .importing.onnx_graph import load
from .operator_mode import OperatorMode

_ONNX_DRAWS = (
    *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike"),
    *("RandomUniform", "RandomUniformLike"),
)


class RandomNetworkError(UserError, ValueError):
    """Two evaluations of a network with equal inputs differ."""


class DrawingOperators(OperatorMode):
    """Context that collects the operators in it that may draw random numbers, as `aten.randn_like`."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, None] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Calls the operator."""
        if torch.Tag.nondeterministic_seeded in func.tags:
            self.names.setdefault(str(func.overloadpacket))
        return func(*args, **(kwargs or {}))


def require_equal(name: str, one: list[Any], other: list[Any], operators: Sequence[str] = ()) -> None:
    """Raises RandomNetworkError if two evaluations of a network differ.

    `operators` are those that may draw random numbers; without them, something else changes the outputs.
    """
    if len(one) == len(other) and all(map(_equal, one, other)):
        return
    cause = ", ".join(operators)
    if cause:
        raise RandomNetworkError(
            f"network={name}: its outputs depend on random numbers of {cause}, and a compiled network would "
            "repeat one draw; make the random numbers an input of the network, or leave the operator out"
        )
    raise RandomNetworkError(
        f"network={name}: two evaluations of the same inputs differ, so it changes its own state or draws "
        "random numbers outside of PyTorch; make such values inputs of the network"
    )


def _equal(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays are equal, apart from sums in another order."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.dtype.kind not in "fc":
        return bool((one == other).all())
    finite = np.abs(one[np.isfinite(one)])
    return bool(np.allclose(one, other, rtol=1e-4, atol=1e-5 * finite.max(initial=0.0), equal_nan=True))


def require_no_draws(path: Path) -> None:
    """Raises RandomNetworkError for an ONNX file with an operator that draws random numbers."""
    found = sorted({name for graph in _graphs(load(path)) for name in _draws(graph)})
    if found:
        raise RandomNetworkError(
            f"network={path}: ONNX operator {', '.join(found)} draws random numbers, and a compiled network "
            "would repeat one draw; make them an input of the network, or leave the operator out"
        )


def _graphs(model: Any) -> Iterator[Any]:
    pending = [model.graph, *model.functions]
    while pending:
        graph = pending.pop()
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                pending += [attribute.g] if attribute.HasField("g") else []
                pending += attribute.graphs


def _draws(graph: Any) -> Iterator[str]:
    constants = {one.name: one for one in getattr(graph, "initializer", ())}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].HasField("t"):
            constants[node.output[0]] = node.attribute[0].t
        drops = node.op_type == "Dropout" and len(node.input) > 2 and node.input[2] in constants
        if drops and any(_values(constants[node.input[2]])):
            yield f"Dropout (node {node.name or node.output[0]}, in training mode)"
        elif node.op_type in _ONNX_DRAWS and node.domain in ("", "ai.onnx"):
            yield f"{node.op_type} (node {node.name or node.output[0]})"


def _values(tensor: Any) -> Any:
    import onnx

    return onnx.numpy_helper.to_array(tensor).reshape(-1)
