"""Tasks that GPU templates compute, and which array is which."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from itertools import takewhile
from math import prod
from typing import Any

import tvm
from tvm import tirx
from tvm.s_tir.stmt import SBlock

from ...operators.shared.tir import extents, linear
from ..cpu.contraction import (
    Contraction,
    blocks_of,
    contraction_of,
    only_copies,
    only_pads,
    product_of,
    roles_of,
)
from .attention_matching import products, read_attention
from .epilogue import read_epilogue
from .problem import DTYPES, HALVES, NOTHING, Problem, Product, Window
from .row_matching import layer_epsilon, read_rows
from .rows import NormedProduct
from .value_check import computes

_TYPES = {tvm_name: name for name, tvm_name in DTYPES.items()}


@dataclass(frozen=True)
class Match:
    """A task as a template computes it."""

    problem: Problem
    parameters: tuple[int, ...]
    """Parameter of the task's function for each of the problem's `pointers`."""


def matched(mod: tvm.IRModule) -> Match | None:
    """The problem that `main` is, None if no template computes it.

    Templates compute products of matrices and 2-D convolutions with channels last, of float16 or bfloat16 and
    with float32 sums, whose epilogue is one of `read_epilogue`; layer norm, alone or after a product;
    softmax of rows; and attention.
    """
    read = _read_whole(mod)
    if read is not None:
        return Match(*read) if computes(mod["main"], *read) else None
    return _matched_product(mod)


def _read_whole(mod: tvm.IRModule) -> tuple[Problem, tuple[int, ...]] | None:
    """The attention or normalisation that `main` seems to be."""
    multiplied = products(mod)
    if not multiplied:
        return read_rows(mod)
    return _read_normed(mod) if len(multiplied) == 1 else read_attention(mod)


def _read_normed(mod: tvm.IRModule) -> tuple[Problem, tuple[int, ...]] | None:
    """A product whose rows are normalised: its epilogue ends before the first mean."""
    func, blocks = mod["main"], blocks_of(mod)
    (anchor,) = products(mod)
    epsilon = layer_epsilon(func)
    if epsilon is None:
        return None
    place = [block.name_hint for block in blocks].index(anchor.name_hint)
    behind = takewhile(lambda block: block.init is None, blocks[place + 1 :])
    same = takewhile(lambda block: len(block.iter_vars) == len(anchor.writes[0].region), behind)
    found = _read_product(mod, anchor, [*blocks[: place + 1], *same])
    if found is None or type(found.problem) is not Product:
        return None
    product, numbers = found.problem, found.parameters
    left = [n for n in range(len(func.params)) if n not in numbers]
    types = [_TYPES[dtype] for n in left if (dtype := str(func.params[n].dtype)) in _TYPES]
    if len(types) != 2 or [extents(func.params[n]) for n in left] != [[product.n]] * 2:
        return None
    fields = {field.name: getattr(product, field.name) for field in dataclass_fields(product)}
    problem = NormedProduct(**fields, epsilon=epsilon, scale=types[0], shift=types[1])
    return problem, (*numbers[:-1], *left, numbers[-1])


def _matched_product(mod: tvm.IRModule) -> Match | None:
    anchor = product_of(mod)
    return None if anchor is None else _read_product(mod, anchor, blocks_of(mod))


def _read_product(mod: tvm.IRModule, anchor: SBlock, blocks: list[SBlock]) -> Match | None:
    """The product of these blocks of `main`, which are all up to its epilogue's end."""
    roles = roles_of(blocks, anchor)
    contraction = None if roles is None else contraction_of(mod, anchor, roles)
    if contraction is None or not _is_half(contraction):
        return None
    func = mod["main"]
    place = [block.name_hint for block in blocks].index(anchor.name_hint)
    before, behind = blocks[:place], blocks[place + 1 :]
    epilogue = read_epilogue(func, anchor.writes[0].source, behind)
    if epilogue is None:
        return None
    image = anchor.reads[contraction.data].source
    pad = _pad(before, image) if before else None
    if before and pad is None:
        return None
    data = _parameter(func, image if pad is None else pad.reads[0].source)
    weight = _parameter(func, anchor.reads[contraction.weight].source)
    if data is None or weight is None:
        return None
    arrays = [data, weight, epilogue.bias, epilogue.residual, len(func.params) - 1]
    dtypes = [NOTHING if n is None else _TYPES.get(str(func.params[n].dtype)) for n in arrays]
    if None in dtypes or dtypes[0] not in HALVES or dtypes[1] != dtypes[0]:
        return None
    fields = {
        "dtype": dtypes[0],
        "bias": dtypes[2],
        "residual": dtypes[3],
        "output": dtypes[4],
        "activation": epilogue.activation,
    }
    read = _product if pad is None and contraction.plain else _window
    problem = read(anchor, contraction, pad, fields)
    if problem is None or prod(problem.shapes[0]) != prod(extents(func.params[data])):
        return None
    return Match(problem, tuple(number for number in arrays if number is not None))


def _is_half(contraction: Contraction) -> bool:
    data, weight, sums = contraction.types
    return data == weight and _TYPES.get(data) in HALVES and sums == "float32"


def _parameter(func: tirx.PrimFunc, array: Any) -> int | None:
    return next((number for number, param in enumerate(func.params) if param.same_as(array)), None)


def _pad(before: list[SBlock], data: Any) -> SBlock | None:
    """The one block before a product, if it surrounds the data with zeros or with nothing."""
    (block, *others) = before
    if others or not block.writes[0].source.same_as(data):
        return None
    if only_copies(block):
        return block
    around = block.body.value.args[2] if only_pads(block) else None
    return block if getattr(around, "value", None) == 0 else None


def _product(anchor: SBlock, found: Contraction, _: None, fields: dict[str, Any]) -> Problem | None:
    """Rows by columns, each in the order in which they lie in memory."""
    outer = prod(axis.extent for axis in found.outer)
    in_order = (found.weight_axes, found.weight_inner, found.weight_column) == (2, 0, 1)
    if found.batch_count != 1 or outer != 1 or not in_order or not _rows_in_order(anchor, found):
        return None
    return Product(m=found.row_count, n=found.column.extent, k=found.inner.extent, **fields)


def _rows_in_order(anchor: SBlock, found: Contraction) -> bool:
    """Whether the data's axes are the rows in order, and the terms of a sum after them."""
    wanted = [anchor.iter_vars[axis.position].var for axis in (*found.rows, found.inner) if axis.extent > 1]
    region = anchor.reads[found.data]
    shape = extents(region.source)
    indices = [at.min for at, extent in zip(region.region, shape, strict=True) if extent > 1]
    return len(indices) == len(wanted) and all(map(tirx.Var.same_as, indices, wanted))


def _window(anchor: SBlock, found: Contraction, pad: SBlock | None, fields: dict[str, Any]) -> Problem | None:
    """A convolution whose strides and paddings are the same in both directions."""
    if found.batch_count != 1 or len(found.rows) != 3 or len(found.outer) != 2:
        return None
    if (found.weight_axes, found.weight_inner, found.weight_column) != (4, 2, 3):
        return None
    image, kernel = found.rows[1:], found.outer
    region, loops = anchor.reads[found.data], anchor.iter_vars
    indices = [at.min for at in region.region]
    if len(indices) != 4 or not indices[3].same_as(loops[found.inner.position].var):
        return None
    for axis, step, index in zip(image, kernel, indices[1:3], strict=True):
        strides = [linear(index, loops[each.position])[0] for each in (axis, step)]
        if (axis.extent > 1 and strides[0] != image[0].stride) or (step.extent > 1 and strides[1] != 1):
            return None
    data = region.source if pad is None else pad.reads[0].source
    if len(extents(data)) != 4:
        return None
    padding = 0
    if pad is not None:
        read = [at.min for at in pad.reads[0].region]
        if len(pad.iter_vars) != 4:
            return None
        shifts = [-linear(at, loop)[1] for at, loop in zip(read, pad.iter_vars, strict=True)]
        if shifts[0] or shifts[3] or shifts[1] != shifts[2]:
            return None
        padding = shifts[1]
    batch, height, width, channels = extents(data)
    problem = Window(
        batch=batch,
        height=height,
        width=width,
        channels=channels,
        filters=found.column.extent,
        kernel_h=kernel[0].extent,
        kernel_w=kernel[1].extent,
        stride=image[0].stride,
        padding=padding,
        **fields,
    )
    sizes = tuple(axis.extent for axis in image)
    fits = problem.output_size == sizes and channels == found.inner.extent and batch == found.rows[0].extent
    return problem if fits else None
