"""Example 3 of ETO on this TVM: a child α and its parent β, 1x1 convolutions for CUDA without a GPU."""

from __future__ import annotations

from functools import cache

import numpy as np
from foretune.compiler.operators import Conv2d, to_task
from foretune.compiler.structure.read_spaces import read_spaces
from foretune.compiler.structure.space import SketchSpace
from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import make_tune_context, parse_target
from foretune.dataset.features.reading import task_reading
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

SM_80 = parse_target("nvidia/nvidia-a100")
CPU = parse_target({"kind": "llvm", "mcpu": "znver3", "num-cores": 2})


def conv(**changes) -> Task:
    """Convolution of Figure 2, with changes."""
    settings = {
        "batch": 1,
        "in_channels": 512,
        "height": 28,
        "width": 28,
        "out_channels": 128,
        "kernel": (1, 1),
    }
    return to_task(Conv2d(**{**settings, **changes}))


PARENT = conv()
"""β of Example 3: the convolution of Figure 2."""
CHILD = conv(in_channels=256)
"""α of Example 3: the same with half of the input channels."""

PARENT_TILES = {
    "nn": [1, 1, 1, 1, 1],
    "ff": [4, 1, 8, 2, 2],
    "yy": [14, 1, 1, 1, 2],
    "xx": [1, 1, 28, 1, 1],
    "rc": [4, 64, 2],
    "ry": [1, 1, 1],
    "rx": [1, 1, 1],
}
"""Tiles of the program in Figure 2b, as section 2 lists them."""

UNROLL_1024 = 7
"""Index of the unroll step 1024 of Example 3 among MetaSchedule's steps on CUDA."""


def context_of(task: Task, target: Target) -> ms.TuneContext:
    """Tune context of a task."""
    return make_tune_context(task.mod, target, seed=0, name=task.name)


@cache
def spaces_of(task: Task, target_name: str = "cuda") -> list[SketchSpace]:
    """Sketch spaces of a task on the target with this name, cuda or llvm."""
    target = SM_80 if target_name == "cuda" else CPU
    return read_spaces(context_of(task, target), task_reading(task.mod).structure, task.name)


def plain_space(task: Task) -> SketchSpace:
    """The CUDA sketch without a software pipeline, as the paper's."""
    return next(space for space in spaces_of(task) if space.sketch.pipeline_copies == 1)


def parent_values() -> np.ndarray:
    """Values [1, width] of the program in Figure 2b: its tiles, no vectors, and unrolling by 1024."""
    tiles = [factor for tile in PARENT_TILES.values() for factor in tile]
    return np.array([[*tiles, 0, 0, UNROLL_1024]])


def parent_trace() -> str:
    """Trace of the program in Figure 2b."""
    space = plain_space(PARENT)
    return space.traces(space.choices(parent_values()))[0]
