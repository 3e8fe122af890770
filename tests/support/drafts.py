"""Hand-written matrix product and one sketch of it, for tests of drafting without TVM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from foretune.compiler.structure.read_sketch import read_sketch
from foretune.compiler.structure.sketch import Decision, Sketch
from foretune.compiler.structure.structure import Access, Block, TaskStructure, Term
from foretune.compiler.tvm_compat import make_tune_context
from foretune.dataset.hardware import Hardware
from foretune.inference.strategies.draft.drafter import Drafter

CPU = Hardware("test", "cpu", 2, 2.0, 512, 32768, 1048576, 33554432, 100.0, 10.0)


def access(buffer: str, shape: tuple[int, ...], *indices: list[tuple[int, int]]) -> Access:
    """Access to a float32 buffer; each index is a list of (axis, coefficient)."""
    terms = tuple((Term(1, tuple(index)),) for index in indices)
    return Access(buffer, shape, 4.0, terms, (1,) * len(shape))


def matmul(rows: int = 8, columns: int = 16, inner: int = 32) -> TaskStructure:
    """Structure of c[i, j] += a[i, k] * b[k, j]."""
    block = Block(
        "matmul",
        (rows, columns, inner),
        (False, False, True),
        (access("c", (rows, columns), [(0, 1)], [(1, 1)]),),
        (
            access("a", (rows, inner), [(0, 1)], [(2, 1)]),
            access("b", (inner, columns), [(2, 1)], [(1, 1)]),
        ),
    )
    return TaskStructure((block,), 2.0 * rows * columns * inner)


def matmul_trace(
    i: list[int] = [2, 1, 2, 2],  # noqa: B006  # never changed
    j: list[int] = [1, 2, 1, 8],  # noqa: B006
    k: list[int] = [8, 4],  # noqa: B006
    unroll: int = 2,
    parallel: int = 32,
) -> list[Any]:
    """MetaSchedule's CPU sketch without cached write: S0 S1 R0 S2 R1 S3."""
    return [
        [
            ["GetSBlock", [], ["matmul", "main"], ["b0"]],
            ["GetSBlock", [], ["root", "main"], ["b1"]],
            ["Annotate", ["b0", '"SSRSRS"'], ["meta_schedule.tiling_structure"], []],
            ["GetLoops", ["b0"], [], ["l2", "l3", "l4"]],
            ["SamplePerfectTile", ["l2"], [4, 64], ["v5", "v6", "v7", "v8"]],
            ["Split", ["l2", "v5", "v6", "v7", "v8"], [1, 0], ["l9", "l10", "l11", "l12"]],
            ["SamplePerfectTile", ["l3"], [4, 64], ["v13", "v14", "v15", "v16"]],
            ["Split", ["l3", "v13", "v14", "v15", "v16"], [1, 0], ["l17", "l18", "l19", "l20"]],
            ["SamplePerfectTile", ["l4"], [2, 64], ["v21", "v22"]],
            ["Split", ["l4", "v21", "v22"], [1, 0], ["l23", "l24"]],
            ["Reorder", ["l9", "l17", "l10", "l18", "l23", "l11", "l19", "l24", "l12", "l20"], [], []],
            ["Annotate", ["b1", parallel], ["meta_schedule.parallel"], []],
            ["Annotate", ["b1", 64], ["meta_schedule.vectorize"], []],
            ["SampleCategorical", [], [[0, 16, 64, 512], [0.25] * 4], ["v25"]],
            ["Annotate", ["b1", "v25"], ["meta_schedule.unroll_explicit"], []],
        ],
        [[4, i], [6, j], [8, k], [13, unroll]],
    ]


def with_locations(*locations: int, **decided: Any) -> tuple[Sketch, np.ndarray]:
    """Sketch of `matmul_trace(**decided)` whose first reads have producers, and the values [1, width] of a
    candidate with these compute locations."""
    sketch, values = read_sketch(matmul_trace(**decided), matmul())
    first = len(sketch.decisions)
    placed = tuple(
        Decision(100 + read, "location", sketch.width + read, block=f"read {read}")
        for read in range(len(locations))
    )
    producers = tuple((read, first + read) for read in range(len(locations)))
    sketch = replace(sketch, decisions=sketch.decisions + placed, producers=producers)
    return sketch, np.array([[*values, *locations]])


class StandInRater:
    """Rater that scores candidates by a function of their values; the values are also their embeddings."""

    def __init__(self, score: Callable[[np.ndarray], np.ndarray]) -> None:
        self.score = score
        self.rated = 0

    def __call__(self, values: np.ndarray) -> np.ndarray:
        self.rated += len(values)
        return self.score(values)

    def with_embeddings(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.score(values), values.astype(np.float32)


def drafter_of(task, target, model):
    """A drafter with a tune context of its own."""
    return Drafter(task, target, model, make_tune_context(task.mod, target, seed=0, name=task.name))
