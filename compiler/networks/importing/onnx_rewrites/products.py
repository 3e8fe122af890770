"""Products: of quantised integers, sums by Einstein's convention, Fourier transforms, columns to images."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from .convolutions import windows_of
from .nodes import Graph, Node


def _matmul(node: Node, g: Graph) -> Sequence[str] | None:
    """Vectors as matrices of one row or one column."""
    left, right = node.shape(0), node.shape(1)
    if min(len(left), len(right)) > 1:
        return None
    x = g.reshape(node.x(0), [1, *left]) if len(left) == 1 else node.x(0)
    y = g.reshape(node.x(1), [*right, 1]) if len(right) == 1 else node.x(1)
    rows = left[:-1] if len(left) > 1 else right[:-2]
    columns = right[-1:] if len(right) > 1 else ()
    return [g.reshape(g("MatMul", x, y), [*rows, *columns])]


def _integer_convolution(node: Node, g: Graph) -> Sequence[str] | None:
    """A convolution of integers with explicit pads."""
    if node.get("auto_pad", "NOTSET") == "NOTSET":
        return None
    strides, dilations, pads = windows_of(node, node.shape(1)[2:])
    attributes = {"strides": strides, "dilations": dilations, "pads": pads, "group": node.get("group", 1)}
    return [g("ConvInteger", *node.inputs, **attributes)]


def _quantised_matmul(node: Node, g: Graph) -> Sequence[str]:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.inputs
    total = g("MatMulInteger", a, b, a_zero, b_zero)
    kind = node.dtype(1)
    scale = g("Mul", a_scale, b_scale)
    return [_requantised(total, scale, y_scale, y_zero, kind, node.dtype(7), g)]


def _quantised_convolution(node: Node, g: Graph) -> Sequence[str]:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = node.inputs[:8]
    spatial = [1] * (node.rank(0) - 2)
    attributes = {one: node.get(one) for one in _CONVOLUTION if node.get(one) is not None}
    total = g("ConvInteger", x, w, x_zero, w_zero, **attributes)
    if node.has(8):
        total = g("Add", total, g.reshape(node.x(8), [1, -1, *spatial]))
    scale = g("Mul", x_scale, w_scale)
    if int(np.prod(node.shape(4))) > 1:
        scale = g.reshape(scale, [1, -1, *spatial])
    return [_requantised(total, scale, y_scale, y_zero, node.dtype(1), node.dtype(7), g)]


_CONVOLUTION = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


def _requantised(
    total: str, scale: str, y_scale: str, y_zero: str, kind: np.dtype, dtype: np.dtype, g: Graph
) -> str:
    """Sums of integers with the scale and the zero of the result."""
    wide = np.dtype(np.float32)
    factor = g("Div", scale, y_scale)
    factor = factor if kind == wide else g.cast(factor, wide)
    real = g("Round", g("Mul", g.cast(total, wide), factor))
    shifted = g("Add", real, g.cast(y_zero, wide))
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    return g.cast(g("Min", g("Max", shifted, g.constant(least, wide)), g.constant(most, wide)), dtype)


def _dequantise_blocks(node: Node, g: Graph) -> Sequence[str] | None:
    """Scales and zeros of blocks, repeated for each element."""
    block = node.get("block_size", 0)
    if not block:
        return None
    scale = _repeated(node, g, 1, block)
    kind = node.dtype(1)
    x = g.cast(node.x(0), kind)
    if node.has(2):
        x = g("Sub", x, g.cast(_repeated(node, g, 2, block), kind))
    return [g("Mul", x, scale)]


def _quantise_blocks(node: Node, g: Graph) -> Sequence[str] | None:
    block = node.get("block_size", 0)
    if not block:
        return None
    kind = node.dtype(1)
    dtype = node.dtype(2) if node.has(2) else np.dtype(np.uint8)
    if not node.has(2) and node.get("output_dtype", 0):
        return None
    x = g("Round", g("Div", node.x(0), _repeated(node, g, 1, block)))
    if node.has(2):
        x = g("Add", x, g.cast(_repeated(node, g, 2, block), kind))
    least, most = (g.constant(one, kind) for one in (np.iinfo(dtype).min, np.iinfo(dtype).max))
    return [g.cast(g("Min", g("Max", x, least), most), dtype)]


def _repeated(node: Node, g: Graph, place: int, block: int) -> str:
    """A tensor of blocks in the shape of the first input."""
    axis, size = node.get("axis", 1) % node.rank(0), node.shape(0)[node.get("axis", 1) % node.rank(0)]
    places = np.arange(size) // block
    return g("Gather", node.x(place), g.constant(places, np.int64), axis=axis)


def _einsum(node: Node, g: Graph) -> Sequence[str] | None:
    """Without dots, and without an index that an operand has twice."""
    equation = node.get("equation").replace(" ", "")
    if "." not in equation and "->" in equation and not _diagonal(equation):
        return None
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    ranks = [node.rank(place) - len(term.replace("...", "")) for place, term in enumerate(terms)]
    free = [letter for letter in string.ascii_letters if letter not in equation]
    dots = free[: max(rank if "..." in term else 0 for rank, term in zip(ranks, terms, strict=True))]
    terms = [
        term.replace("...", "".join(dots[len(dots) - rank :]))
        for rank, term in zip(ranks, terms, strict=True)
    ]
    letters = "".join(terms)
    once = "".join(sorted(one for one in set(letters) - set(dots) if letters.count(one) == 1))
    result = right.replace("...", "".join(dots)) if arrow else "".join(dots) + once
    operands = []
    for place, term in enumerate(terms):
        x, kept = node.x(place), list(term)
        shape = list(node.shape(place))
        while len(set(kept)) < len(kept):
            letter = next(one for one in kept if kept.count(one) > 1)
            first, second = (at for at, one in enumerate(kept) if one == letter)
            x, shape = _diagonal_of(x, g, shape, first, second, node.dtype(place))
            del kept[second]
        operands.append(x)
        terms[place] = "".join(kept)
    return [g("Einsum", *operands, equation=f"{','.join(terms)}->{result}")]


def _diagonal(equation: str) -> bool:
    return any(len(set(term)) < len(term) for term in equation.partition("->")[0].split(","))


def _diagonal_of(
    x: str, g: Graph, shape: Sequence[int], first: int, second: int, dtype: np.dtype
) -> tuple[str, list[int]]:
    """Elements with equal positions on two axes, of which the first one stays."""
    mask = np.eye(shape[first], dtype=bool)
    sizes = [shape[first] if axis in (first, second) else 1 for axis in range(len(shape))]
    chosen = g("Where", g.constant(mask.reshape(sizes)), x, g.constant(0, dtype))
    rest = [size for axis, size in enumerate(shape) if axis != second]
    return g.reduce("ReduceSum", chosen, [second], keepdims=False), rest


def _fourier(node: Node, g: Graph) -> Sequence[str]:
    """A discrete Fourier transform as products with constant matrices."""
    shape, dtype = node.shape(0), node.dtype(0)
    last = len(shape) - 1
    axis = int(node.fixed(2).reshape(())) if node.has(2) else node.get("axis", 1 if node.opset < 20 else -2)
    axis %= len(shape)
    inverse, onesided = bool(node.get("inverse", 0)), bool(node.get("onesided", 0))
    length = 2 * (shape[axis] - 1) if inverse and onesided else shape[axis]
    length = int(node.fixed(1).reshape(())) if node.has(1) else length
    parts = [g.part(node.x(0), 0, 1, last)]
    if shape[last] == 2:
        parts.append(g.part(node.x(0), 1, 2, last))
    perm = [one for one in range(len(shape)) if one != axis] + [axis]
    back = [perm.index(one) for one in range(len(shape))]
    whole = length
    if inverse and onesided:
        kept = shape[axis]
        matrices = _inverse_real(kept, length)
    else:
        kept = min(whole, shape[axis])
        sign = 1 if inverse else -1
        outputs = length // 2 + 1 if onesided else length
        angle = sign * 2 * np.pi * np.outer(np.arange(kept), np.arange(outputs)) / length
        factor = 1 / length if inverse else 1.0
        matrices = np.cos(angle) * factor, np.sin(angle) * factor
    moved = [g("Transpose", g.part(part, 0, kept, axis), perm=perm) for part in parts]
    cosine, sine = (g.constant(matrix, dtype) for matrix in matrices)
    real, imaginary = g("MatMul", moved[0], cosine), g("MatMul", moved[0], sine)
    if len(moved) > 1:
        real = g("Sub", real, g("MatMul", moved[1], sine))
        imaginary = g("Add", imaginary, g("MatMul", moved[1], cosine))
    real, imaginary = (g("Transpose", one, perm=back) for one in (real, imaginary))
    return [real if inverse and onesided else g("Concat", real, imaginary, axis=last)]


def _inverse_real(kept: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Matrices of an inverse transform whose input is half of a symmetric spectrum."""
    angle = 2 * np.pi * np.outer(np.arange(kept), np.arange(length)) / length
    twice = np.full((kept, 1), 2.0)
    twice[0] = 1
    if length % 2 == 0 and kept == length // 2 + 1:
        twice[-1] = 1
    return np.cos(angle) * twice / length, np.sin(angle) * twice / length


def _short_fourier(node: Node, g: Graph) -> Sequence[str]:
    """Windows of a signal, and the transform of each."""
    shape, dtype = node.shape(0), node.dtype(0)
    step = int(node.fixed(1).reshape(()))
    length = int(node.fixed(3).reshape(())) if node.has(3) else node.shape(2)[0]
    batch, size = shape[:2]
    count = (size - length) // step + 1
    places = np.arange(count)[:, None] * step + np.arange(length)
    outputs = length // 2 + 1 if node.get("onesided", 1) else length
    angle = -2 * np.pi * np.outer(np.arange(length), np.arange(outputs)) / length
    cosine, sine = g.constant(np.cos(angle), dtype), g.constant(np.sin(angle), dtype)

    def frames(part: str) -> str:
        found = g("Gather", g.reshape(part, [batch, size]), g.constant(places, np.int64), axis=1)
        return g("Mul", found, node.x(2)) if node.has(2) else found

    if len(shape) == 3 and shape[2] == 2:
        real, imaginary = (frames(g.part(node.x(0), at, at + 1, 2)) for at in (0, 1))
        first = g("Sub", g("MatMul", real, cosine), g("MatMul", imaginary, sine))
        second = g("Add", g("MatMul", real, sine), g("MatMul", imaginary, cosine))
    else:
        windows = frames(node.x(0))
        first, second = g("MatMul", windows, cosine), g("MatMul", windows, sine)
    whole = [batch, count, outputs, 1]
    return [g("Concat", g.reshape(first, whole), g.reshape(second, whole), axis=3)]


def _columns_to_image(node: Node, g: Graph) -> Sequence[str]:
    """Columns added at the places of their blocks, by a transposed convolution with ones."""
    image, block = node.fixed(1).tolist(), node.fixed(2).tolist()
    axes, batch, area = len(image), node.shape(0)[0], int(np.prod(block))
    channels = node.shape(0)[1] // area
    strides, dilations = node.get("strides", [1] * axes), node.get("dilations", [1] * axes)
    pads = node.get("pads", [0] * (2 * axes))
    counts = [
        (image[a] + pads[a] + pads[axes + a] - (block[a] - 1) * dilations[a] - 1) // strides[a] + 1
        for a in range(axes)
    ]
    x = g.reshape(node.x(0), [batch, channels * area, *counts])
    weight = np.tile(np.eye(area), (channels, 1)).reshape(channels * area, 1, *block)
    left = [
        image[a]
        + pads[a]
        + pads[axes + a]
        - ((counts[a] - 1) * strides[a] + (block[a] - 1) * dilations[a] + 1)
        for a in range(axes)
    ]
    return [
        g(
            "ConvTranspose",
            x,
            g.constant(weight, node.dtype(0)),
            strides=list(strides),
            dilations=list(dilations),
            pads=list(pads),
            output_padding=left,
            group=channels,
        )
    ]


PRODUCTS: Mapping[str, Callable[[Node, Graph], Sequence[str] | None]] = {
    "MatMul": _matmul,
    "ConvInteger": _integer_convolution,
    "DequantizeLinear": _dequantise_blocks,
    "QuantizeLinear": _quantise_blocks,
    "QLinearMatMul": _quantised_matmul,
    "QLinearConv": _quantised_convolution,
    "Einsum": _einsum,
    "DFT": _fourier,
    "STFT": _short_fourier,
    "Col2Im": _columns_to_image,
}
"""Rewrites by operator."""
