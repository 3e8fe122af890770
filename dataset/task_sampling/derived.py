"""Operators that zoos have seldom or not at all, made of the zoo's convolutions whose work they can do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ..operators import CapsuleConv2d, Conv2d, Conv3d, GroupConv3d, OperatorSettings, WinogradConv2d
from ..zoo.table import MAX_EXAMPLES, ZooRow

CAPSULE_SIZE = 4
"""Side of a capsule's pose matrix (Hinton et al., Matrix capsules with EM routing, ICLR 2018)."""


def winograd_of(conv: OperatorSettings) -> WinogradConv2d | None:
    """The same convolution by Winograd's algorithm; None unless it is 3x3 of stride 1."""
    if not isinstance(conv, Conv2d) or (conv.kernel, conv.stride, conv.dilation) != ((3, 3), (1, 1), (1, 1)):
        return None
    return WinogradConv2d(
        batch=conv.batch,
        in_channels=conv.in_channels,
        height=conv.height,
        width=conv.width,
        out_channels=conv.out_channels,
        padding=conv.padding,
        epilogue=_first_steps(conv.epilogue, WinogradConv2d.epilogues),
    )


def _first_steps(epilogue: str, possible: Sequence[str]) -> str:
    """As many steps of an epilogue as are possible."""
    while epilogue not in possible:
        epilogue = epilogue.rpartition("_")[0] or "none"
    return epilogue


def capsules_of(conv: OperatorSettings) -> CapsuleConv2d | None:
    """A capsule convolution over tensors of the same sizes; None where channels leave a capsule unfilled."""
    if not isinstance(conv, Conv2d) or max(conv.dilation) > 1:
        return None
    (in_capsules, in_rest), (out_capsules, out_rest) = (
        divmod(channels, CAPSULE_SIZE**2) for channels in (conv.in_channels, conv.out_channels)
    )
    if in_rest or out_rest:
        return None
    return CapsuleConv2d(
        batch=conv.batch,
        in_channels=in_capsules,
        height=conv.height,
        width=conv.width,
        out_channels=out_capsules,
        kernel=conv.kernel,
        stride=conv.stride,
        padding=conv.padding,
        capsule_size=CAPSULE_SIZE,
    )


def separated_of(conv: OperatorSettings) -> GroupConv3d | None:
    """The same convolution channel by channel, as in CSN (Tran et al., ICCV 2019, section 3.3).

    None unless it has a window and keeps the channels.
    """
    if not isinstance(conv, Conv3d) or max(conv.kernel) == 1:
        return None
    if not 1 < conv.in_channels == conv.out_channels:
        return None
    return GroupConv3d(
        batch=conv.batch,
        in_channels=conv.in_channels,
        depth=conv.depth,
        height=conv.height,
        width=conv.width,
        out_channels=conv.out_channels,
        kernel=conv.kernel,
        stride=conv.stride,
        padding=conv.padding,
        dilation=conv.dilation,
        groups=conv.in_channels,
        epilogue=_first_steps(conv.epilogue, GroupConv3d.epilogues),
    )


DERIVED: Mapping[str, Callable[[OperatorSettings], OperatorSettings | None]] = {
    WinogradConv2d.operator: winograd_of,
    CapsuleConv2d.operator: capsules_of,
    GroupConv3d.operator: separated_of,
}


def with_derived(rows: Iterable[ZooRow]) -> list[ZooRow]:
    """The rows and those of the operators in DERIVED, with the counts of what they are made of."""
    given = list(rows)
    derived: dict[OperatorSettings, ZooRow] = {}
    for row in given:
        for derive in DERIVED.values():
            settings = derive(row.settings)
            if settings is not None:
                other = derived.get(settings)
                new = replace(row, settings=settings)
                derived[settings] = new if other is None else _merge(other, new)
    return [*given, *derived.values()]


def _merge(one: ZooRow, other: ZooRow) -> ZooRow:
    return ZooRow(
        one.settings,
        one.calls + other.calls,
        one.networks + other.networks,
        tuple(dict.fromkeys(one.examples + other.examples))[:MAX_EXAMPLES],
        tuple(dict.fromkeys(one.evaluation + other.evaluation)),
    )
