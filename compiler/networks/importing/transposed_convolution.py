"""Transposed convolutions of exported programs as convolutions at the resolution of their input."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch


def transposed_convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> torch.Tensor:
    """A transposed convolution as convolutions at the resolution of its input, x (batch, channels, h, w).

    Others keep their form, but for the bias of half-precision ones, which TVM's importer adds in float32.

    Output q = s * j + r along an axis of stride s sums x[j - m] * weight[r + s * m] over m. TVM's own
    operator multiplies s * s - 1 zeros next to each input.
    """
    if not transposed and bias is not None and x.dtype in (torch.float16, torch.bfloat16):
        plain = torch.convolution(
            x, weight, None, stride, padding, dilation, transposed, output_padding, groups
        )
        return plain + bias.reshape(-1, *[1] * len(stride))
    if transposed and len(stride) == 3:
        return _with_zeros(x, weight, bias, stride, padding, dilation, output_padding, groups)
    if not transposed or len(stride) != 2 or groups != 1 or max(dilation) > 1:
        return NotImplemented
    kernel = weight.shape[2:]
    sizes = [
        (x.shape[2 + axis] - 1) * stride[axis] - 2 * padding[axis] + kernel[axis] + output_padding[axis]
        for axis in range(2)
    ]
    top, left = padding
    if tuple(x.shape[2:]) == (1, 1):
        every = _transposed_conv_of_one_pixel(x, weight)
    elif stride[0] == 1 or stride[1] != stride[0]:
        return NotImplemented
    elif _apart(x, weight, stride[0], padding, sizes):
        every, top, left = _places_apart(x, weight, stride[0], padding, sizes), 0, 0
    else:
        every = _places_as_channels(x, weight, stride[0])
    if every.shape[2] < top + sizes[0] or every.shape[3] < left + sizes[1]:
        return NotImplemented  # output_padding reaches beyond the kernel
    found = every[:, :, top : top + sizes[0], left : left + sizes[1]]
    return found if bias is None else found + bias.reshape(-1, 1, 1)


def _with_zeros(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    output_padding: list[int],
    groups: int,
) -> torch.Tensor:
    """A convolution of the input with stride - 1 zeros between its elements: TVM has none of three axes."""
    sides: list[int] = []
    for axis, step in enumerate(stride):
        if step > 1:
            extent = x.shape[2 + axis]
            spread = torch.nn.functional.pad(
                x.unsqueeze(3 + axis), (0, 0) * (x.dim() - 3 - axis) + (0, step - 1)
            )
            x = spread.flatten(2 + axis, 3 + axis).narrow(2 + axis, 0, (extent - 1) * step + 1)
        before = dilation[axis] * (weight.shape[2 + axis] - 1) - padding[axis]
        sides = [before, before + output_padding[axis], *sides]
    inner, outer, *kernel = weight.shape
    turned = weight.flip(list(range(2, weight.dim()))).reshape(groups, inner // groups, outer, *kernel)
    filters = turned.transpose(1, 2).reshape(groups * outer, inner // groups, *kernel)
    none = [0] * len(stride)
    return torch.ops.aten.convolution.default(
        torch.nn.functional.pad(x, sides),
        filters,
        bias,
        [1] * len(stride),
        none,
        dilation,
        False,
        none,
        groups,
    )


def _transposed_conv_of_one_pixel(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The window of one pixel, a product of matrices."""
    inner, outer, *kernel = weight.shape
    window = x.flatten(1) @ weight.permute(0, 2, 3, 1).reshape(inner, -1)
    return window.reshape(-1, *kernel, outer).permute(0, 3, 1, 2)


def _places_as_channels(x: torch.Tensor, weight: torch.Tensor, s: int) -> torch.Tensor:
    """All outputs: the s * s places r of the two axes are channels of one convolution.

    A pixel shuffle brings them to their places.
    """
    inner, outer, *kernel = weight.shape
    taps = [-(-size // s) for size in kernel]
    whole = torch.nn.functional.pad(weight, (0, s * taps[1] - kernel[1], 0, s * taps[0] - kernel[0]))
    places = whole.reshape(inner, outer, taps[0], s, taps[1], s).flip(2, 4)
    channels = places.permute(1, 3, 5, 0, 2, 4).reshape(outer * s * s, inner, *taps)
    return torch.nn.functional.pixel_shuffle(torch.conv2d(x, channels, padding=[tap - 1 for tap in taps]), s)


LEAST_APART = 16
"""Channels of a place that fill a vector on their own."""


def _apart(x: torch.Tensor, weight: torch.Tensor, s: int, padding: list[int], sizes: list[int]) -> bool:
    """Whether places that are convolutions of their own save a tenth of the products.

    Together they compute outputs that the padding leaves out, and products with taps that some of them lack.
    """
    kernel = weight.shape[2:]
    if weight.shape[1] < LEAST_APART or any(size % s for size in sizes) or min(kernel) < s:
        return False
    taps = [-(-size // s) for size in kernel]
    together = math.prod((x.shape[2 + axis] + taps[axis] - 1) * s * taps[axis] for axis in range(2))
    alone = math.prod(size // s * extent for size, extent in zip(sizes, kernel, strict=True))
    return 1.1 * alone <= together


def _places_apart(
    x: torch.Tensor, weight: torch.Tensor, s: int, padding: list[int], sizes: list[int]
) -> torch.Tensor:
    """The outputs that the padding leaves: each place is a convolution of its own without padding.

    Channels go last before the places are interleaved, as the convolutions around have them.
    """
    counts = [size // s for size in sizes]
    places = [_places(weight.shape[2 + axis], s, padding[axis]) for axis in range(2)]
    before = [max(0, *(-place.first for place in along)) for along in places]
    after = [
        max(0, *(place.begin + counts[axis] - x.shape[2 + axis] for place in along))
        for axis, along in enumerate(places)
    ]
    around = torch.nn.functional.pad(x, (before[1], after[1], before[0], after[0]))
    lines = []
    for row in places[0]:
        top = before[0] + row.first
        line = []
        for column in places[1]:
            left = before[1] + column.first
            window = around[
                :, :, top : top + counts[0] + row.taps - 1, left : left + counts[1] + column.taps - 1
            ]
            taps = weight[:, :, row.place :: s, column.place :: s].flip(2, 3).permute(1, 0, 2, 3)
            line.append(torch.conv2d(window, taps).permute(0, 2, 3, 1))
        lines.append(torch.stack(line, 3))
    return torch.stack(lines, 2).reshape(x.shape[0], *sizes, weight.shape[1]).permute(0, 3, 1, 2)


class _Place(NamedTuple):
    """Outputs q = s * j + place of one axis, from the first one that the padding leaves."""

    place: int
    begin: int
    """j of the first output."""
    taps: int

    @property
    def first(self) -> int:
        """First input that the first output reads."""
        return self.begin - self.taps + 1


def _places(extent: int, s: int, padding: int) -> list[_Place]:
    """Places of one axis of the kernel, in the order of the outputs."""
    found = []
    for number in range(padding, padding + s):
        place = number % s
        found.append(_Place(place, number // s, -(-(extent - place) // s)))
    return found
