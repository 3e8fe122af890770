"""Chains of products that are computed back to back: the result of one stays in cache for the next.

Bolt's persistent kernels (section 3.1.1) for a CPU. All stages but the first, and a depthwise convolution
within an inverted residual, are products of matrices or convolutions of 1x1, stride 1 and no padding, so that
they read the rows that the stage before has computed and no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import tvm
from tvm.s_tir.stmt import SBlock

from ....operators.shared.tir import extents
from ..contraction import Contraction, blocks_of, contraction_of, is_product, only_copies, only_pads, reduces
from ..depthwise import read_windows

_MATRIX_AXES = 2
"""Axes of the rows of a matrix at most, with those of a batch; images have three."""


@dataclass(frozen=True)
class ChainStage:
    """One product of a chain with the element-wise steps after it."""

    block: str
    """Name of the block that reduces."""
    result: str
    """Name of the block that writes the next stage's input; `block` if no step follows it."""
    inlined: tuple[str, ...]
    """Steps between the two, and copies of the data, which are computed at their readers."""
    prepared: tuple[str, ...]
    """The padded data."""
    rows: tuple[int, ...]
    """Extents of the result but for the last: rows of a matrix, or images, height and width."""
    columns: int
    depth: int
    """Products of each sum."""
    window: int = 1
    """Rows of the data that one row of the result reads."""
    stride: int = 1
    """Rows of the data from one row of the result to the next."""
    contraction: Contraction | None = None
    """The product; None for a depthwise convolution."""
    element_bytes: int = 4
    """Bytes of an element of the result."""

    @property
    def blocked(self) -> int:
        """Axis of the rows that is cut into blocks: the lines of images, the last axis of other rows."""
        return len(self.rows) - (2 if len(self.rows) > _MATRIX_AXES else 1)

    @property
    def across(self) -> int:
        """Rows of each line: pixels of an image, one otherwise."""
        return prod(self.rows[self.blocked + 1 :])

    @property
    def is_pointwise(self) -> bool:
        """Whether each row reads the same row of the data alone (Bolt, section 3.1.1)."""
        task = self.contraction
        return (
            task is not None
            and not task.batch
            and not self.prepared
            and all(axis.extent == 1 for axis in task.outer)
            and all(axis.stride == 1 or axis.extent == 1 for axis in task.rows)
        )


@dataclass(frozen=True)
class Chain:
    """Stages in the order in which they are computed."""

    stages: tuple[ChainStage, ...]

    @property
    def types(self) -> tuple[str, str, str]:
        """Data types of data, weight and sums of the last product."""
        last = self.stages[-1].contraction
        assert last is not None  # `read_chain` ensures it
        return last.types


def read_chain(mod: tvm.IRModule) -> Chain | None:
    """The chain that `main` computes; None for another task, such as a single product."""
    blocks = blocks_of(mod)
    if len({block.name_hint for block in blocks}) != len(blocks):
        return None
    places = [number for number, block in enumerate(blocks) if block.init is not None]
    if len(places) < 2 or any(len(block.writes) != 1 for block in blocks):
        return None
    stages: list[ChainStage] = []
    begin, result = 0, blocks[0]
    for number, place in enumerate(places):
        end = places[number + 1] if number + 1 < len(places) else len(blocks)
        after = blocks[place + 1 : end]
        while number + 1 < len(places) and after and (only_copies(after[-1]) or only_pads(after[-1])):
            after.pop()
        before, anchor = blocks[begin:place], blocks[place]
        stage = _stage(mod, before, anchor, after)
        if stage is None or (number and not _reads(result, before, anchor, stage)):
            return None
        stages.append(stage)
        result = after[-1] if after else anchor
        begin = place + 1 + len(after)
    return Chain(tuple(stages)) if _follow(stages) else None


def _reads(result: SBlock, before: Sequence[SBlock], anchor: SBlock, stage: ChainStage) -> bool:
    """Whether the data of a product is this result, perhaps copied or padded."""
    source = anchor.reads[stage.contraction.data if stage.contraction else 0].source
    for block in reversed(before):
        if block.writes[0].source.same_as(source):
            source = block.reads[0].source
    return bool(result.writes[0].source.same_as(source))


def _follow(stages: Sequence[ChainStage]) -> bool:
    """Whether the shapes of stages fit, and no stage but the first spoils residence."""
    *others, last = stages
    if not last.is_pointwise or last.contraction is None:
        return False
    for before, stage in pairwise(stages):
        depthwise = stage.contraction is None
        read = stage.columns if depthwise else stage.depth
        same_rows = depthwise or stage.rows == before.rows
        if read != before.columns or len(stage.rows) != len(before.rows) or not same_rows:
            return False
        if not (stage.is_pointwise or (depthwise and before.is_pointwise)):
            return False
    types = {stage.contraction.types for stage in stages if stage.contraction is not None}
    return len(types) == 1 and not any(stage.contraction and stage.contraction.batch for stage in others)


def _stage(
    mod: tvm.IRModule, before: Sequence[SBlock], anchor: SBlock, after: Sequence[SBlock]
) -> ChainStage | None:
    if not is_product(anchor) or len(anchor.reads) != 2:
        return None
    copies = [block for block in before if only_copies(block)]
    padded = [block for block in before if only_pads(block)]
    if len(copies) + len(padded) != len(before) or len(padded) > 1:
        return None
    shape = list(extents(anchor.writes[0].source))
    if any(reduces(block) for block in after):
        return None
    result = after[-1] if after else anchor
    if list(extents(result.writes[0].source)) != shape:
        return None
    names = {
        "inlined": tuple(block.name_hint for block in (*copies, *after[:-1])),
        "prepared": tuple(block.name_hint for block in padded),
    }
    task = contraction_of(mod, anchor, {**names, "epilogue": after[-1].name_hint if after else None})
    if task is not None:
        found = task.depth, (task.outer[0].extent if task.outer else 1), task.rows[-2:][0].stride
    elif (windows := read_windows(anchor)) is not None:
        found = windows.taps, windows.reach[0], windows.stride[0]
    else:
        return None
    depth, taps, stride = found
    return ChainStage(
        block=anchor.name_hint,
        **names,
        result=result.name_hint,
        rows=tuple(shape[:-1]),
        columns=shape[-1],
        depth=depth,
        window=taps,
        stride=stride,
        contraction=task,
        element_bytes=tvm.DataType(str(result.writes[0].source.dtype)).bits // 8,
    )
