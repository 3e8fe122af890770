"""Operators that TVM's importer lacks: by PyTorch's decompositions, by functions here, or by a conversion.

PyTorch's own tables come first. What they leave is decomposed by `OWN`, or converted by `CONVERTERS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from torch import fx
from torch._decomp import decomposition_table
from torch.export import ExportedProgram
from tvm import relax

from .arithmetic import ARITHMETIC
from .decomposing.composite_operators import run_decompositions
from .decomposing.fake_quantisation import EXPORTED_QUANTISATION, FAKE_QUANTISATION
from .decomposing.grouped_products import GROUPED_PRODUCTS, OTHER_LIBRARIES
from .decomposing.linear_algebra import LINEAR_ALGEBRA
from .decomposing.ordering import ORDERING
from .decomposing.scattering import SCATTERING
from .decomposing.special_functions import SPECIAL_FUNCTIONS
from .fold_constants import independent
from .indexing import INDEXING
from .pooling import POOLING, WITH_POSITIONS
from .resizing import RESIZING
from .transposed_convolution import transposed_convolution

SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
"""Values of nodes that compute with extents: a conversion has the expression, and needs no operator."""

_ATEN = torch.ops.aten

_OF_LIBRARIES = {**OTHER_LIBRARIES, **EXPORTED_QUANTISATION}

MOST_ROUNDS = 5
"""Rounds of decomposition: what one makes may need another."""


def decomposed(
    program: ExportedProgram, known: Collection[str], own: Mapping[Any, Callable[..., Any]] | None = None
) -> tuple[ExportedProgram, list[str]]:
    """The program in PyTorch's core operators, or in simpler ones if the importer lacks these.

    Args:
        program: a program of `torch.export`.
        known: names of the importer's operators, such as `add.Tensor`.
        own: decompositions of the importer, which come before OWN.

    Returns the program and the names of operators that nothing decomposes. What depends on no input counts as
    known: folding evaluates it.
    """
    table: dict[Any, Callable[..., Any]] = {**OWN, **(own or {})}
    for _ in range(MOST_ROUNDS):
        program = run_decompositions(program, table)
        missing = _missing(program, known)
        further: dict[Any, Callable[..., Any]] = {
            op: decomposition_table[op] for op in missing if _decomposable(op) and op not in table
        }
        further.update(
            (op, _OF_LIBRARIES[str(op)]) for op in missing if str(op) in _OF_LIBRARIES and op not in table
        )
        if _uses_positions(program):
            further.update(WITH_POSITIONS)
        if not further:
            break
        table.update(further)
    return program, sorted(_name(op) for op in missing)


def _uses_positions(program: ExportedProgram) -> bool:
    """Whether a program in core operators uses the positions of a pooling's maxima."""
    return any(
        node.target in WITH_POSITIONS and any(user.args[1] == 1 for user in node.users)
        for node in program.graph.nodes
    )


def _missing(program: ExportedProgram, known: Collection[str]) -> list[Any]:
    evaluated = independent(program)
    targets = [
        node.target
        for node in program.graph.nodes
        if node.op == "call_function"
        and node not in evaluated
        and node.target.__name__ not in known
        and not isinstance(node.meta.get("val"), SYMBOLIC)
    ]
    return list(dict.fromkeys(targets))


def _decomposable(op: Any) -> bool:
    return op in decomposition_table and _name(op) not in CONVERTERS


def _name(op: Any) -> str:
    return str(op).removeprefix("aten.")


def _unfold(x: torch.Tensor, dimension: int, size: int, step: int) -> torch.Tensor:
    """Windows along a dimension, which goes last; PyTorch makes strides of it that TVM has not."""
    axis = dimension % x.dim()
    starts = torch.arange(0, x.shape[axis] - size + 1, step)
    positions = (starts[:, None] + torch.arange(size)).flatten()
    windows = x.index_select(axis, positions).unflatten(axis, (len(starts), size))
    return windows.movedim(axis + 1, -1)


def _im2col(
    x: torch.Tensor, kernel_size: list[int], dilation: list[int], padding: list[int], stride: list[int]
) -> torch.Tensor:
    """Columns of patches of x (..., channels, height, width); TVM lacks the indices of PyTorch's way."""
    padded = torch.nn.functional.pad(x, (padding[1], padding[1], padding[0], padding[0]))
    covered = [dilation[axis] * (kernel_size[axis] - 1) for axis in range(2)]
    ends = [padded.shape[axis - 2] - covered[axis] for axis in range(2)]
    shifted = [
        padded[..., row : row + ends[0] : stride[0], column : column + ends[1] : stride[1]]
        for row in range(0, covered[0] + 1, dilation[0])
        for column in range(0, covered[1] + 1, dilation[1])
    ]
    return torch.stack(shifted, -3).flatten(-4, -3).flatten(-2)


def _pow(x: torch.Tensor, exponent: float) -> torch.Tensor:
    """A power as multiplications: TVM calls the C library for each element, which no vector unit runs.

    Integers and booleans become what PyTorch makes of them first: float32 with a floating exponent.
    """
    base = x.to(torch.result_type(x, exponent))
    if exponent not in (2, 3, 4):
        return NotImplemented if base is x else base**exponent
    square = base * base
    return square if exponent == 2 else square * (base if exponent == 3 else square)


def _add(x: torch.Tensor, other: Any, alpha: float = 1) -> torch.Tensor:
    """A sum with a multiple; TVM leaves the factor out."""
    return NotImplemented if alpha == 1 else x + other * alpha


def _sub(x: torch.Tensor, other: Any, alpha: float = 1) -> torch.Tensor:
    return NotImplemented if alpha == 1 else x - other * alpha


def _resize_by_factors(resize: Any) -> Callable[..., Any]:
    """PyTorch's decomposition of a resizing whose factors are not the ratios of the extents.

    The importer knows the extents alone, and PyTorch uses the factors if it has some: 10 pixels become
    15 by a factor of 1.55.
    """

    def decompose(x: torch.Tensor, *arguments: Any) -> torch.Tensor:
        sizes = [size * factor for size, factor in zip(x.shape[2:], arguments[-1] or (), strict=False)]
        if all(math.isclose(size, math.floor(size)) for size in sizes):
            return NotImplemented
        return decomposition_table[resize](x, *arguments)

    return decompose


OWN: Mapping[Any, Callable[..., Any]] = {
    **ARITHMETIC,
    **INDEXING,
    **POOLING,
    **RESIZING,
    **LINEAR_ALGEBRA,
    **FAKE_QUANTISATION,
    **GROUPED_PRODUCTS,
    **ORDERING,
    **SCATTERING,
    **SPECIAL_FUNCTIONS,
    _ATEN.add.Scalar: _add,
    _ATEN.add.Tensor: _add,
    _ATEN.sub.Scalar: _sub,
    _ATEN.sub.Tensor: _sub,
    _ATEN.convolution.default: transposed_convolution,
    _ATEN.im2col.default: _im2col,
    _ATEN.pow.Tensor_Scalar: _pow,
    _ATEN.unfold.default: _unfold,
    _ATEN.upsample_bilinear2d.vec: _resize_by_factors(_ATEN.upsample_bilinear2d.vec),
    _ATEN.upsample_nearest2d.vec: _resize_by_factors(_ATEN.upsample_nearest2d.vec),
}
"""Decompositions of operators that PyTorch's tables lack, or decompose into what TVM lacks or runs slowly."""


def _extremum(reduce: Callable[..., relax.Expr]) -> Callable[[fx.Node, Any], relax.Var]:
    def convert(node: fx.Node, importer: Any) -> relax.Var:
        x, *rest = importer.retrieve_args(node)
        axes: Any = rest[0] if rest else node.kwargs.get("dim", [])
        kept = rest[1] if len(rest) > 1 else node.kwargs.get("keepdim", False)
        return importer.block_builder.emit(reduce(x, list(axes) or None, keepdims=kept))

    return convert


def _nearest(node: fx.Node, importer: Any) -> relax.Var:
    """Pixel i of the output is pixel floor(i * input extent / output extent); the importer rounds instead."""
    x, size = importer.env[node.args[0]], [int(extent) for extent in node.meta["val"].shape[-2:]]
    resized = relax.op.image.resize2d(
        x,
        size,
        layout="NCHW",
        method="nearest_neighbor",
        coordinate_transformation_mode="asymmetric",
        rounding_method="floor",
    )
    return importer.block_builder.emit(resized)


def _scatter(reduction: str) -> Callable[[fx.Node, Any], relax.Var]:
    def convert(node: fx.Node, importer: Any) -> relax.Var:
        x, axis, index, source = importer.retrieve_args(node)[:4]
        return importer.block_builder.emit(
            relax.op.scatter_elements(x, index, source, axis=axis, reduction=reduction)
        )

    return convert


_REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


def _scatter_reduce(node: fx.Node, importer: Any) -> relax.Var:
    kept = node.args[5] if len(node.args) > 5 else node.kwargs.get("include_self", True)
    reduction = _REDUCTIONS.get(str(node.args[4]))
    if reduction is None or not kept:
        raise ValueError(f"reduce={node.args[4]!r}, include_self={kept}: not supported")
    return _scatter(reduction)(node, importer)


CONVERTERS: Mapping[str, Callable[[fx.Node, Any], relax.Var]] = {
    "scatter_add.default": _scatter("add"),
    "scatter_reduce.two": _scatter_reduce,
    "amax.default": _extremum(relax.op.max),
    "amin.default": _extremum(relax.op.min),
    "upsample_nearest2d.vec": _nearest,
}
"""Conversions to Relax of operators that the importer lacks or gets wrong."""
