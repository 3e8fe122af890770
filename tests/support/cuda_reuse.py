"""Programs that the reuse tuner measures for a child on CUDA, for a pair of each operator type of ETO."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tvm
from foretune.compiler.operators import (
    BatchMatmul,
    CapsuleConv2d,
    Conv1d,
    Conv2d,
    Conv3d,
    DepthwiseConv2d,
    FrobeniusNorm,
    GroupConv2d,
    OperatorSettings,
    TransposedConv2d,
    WinogradConv2d,
    to_task,
)
from foretune.compiler.replay import candidate_trace_json
from foretune.compiler.task import Task
from foretune.inference import OneShotConfig
from foretune.inference.eto.search.config import ReuseConfig
from foretune.inference.eto.search.strategy import NO_REUSE
from foretune.inference.reuse.parent import ReuseParent
from foretune.inference.search.loop import RoundBudget
from foretune.inference.search.session import SearchSession, SessionResources
from tvm.s_tir import meta_schedule as ms

from .cuda_emulation.target import TARGET
from .cuda_programs import random_candidates

_AROUND = {"batch": 1, "height": 8, "width": 8, "kernel": (3, 3), "padding": (1, 1)}
_ROUND = 64

PAIRS: Mapping[str, tuple[OperatorSettings, OperatorSettings]] = {
    "C1D": tuple(
        Conv1d(batch=1, in_channels=16, length=32, out_channels=n, kernel=3, padding=1) for n in (32, 64)
    ),
    "C2D": tuple(Conv2d(in_channels=n, out_channels=32, **_AROUND) for n in (16, 32)),
    "C3D": tuple(
        Conv3d(
            batch=1,
            in_channels=n,
            depth=4,
            height=4,
            width=8,
            out_channels=16,
            kernel=(3, 3, 3),
            padding=(1, 1, 1),
        )
        for n in (4, 8)
    ),
    "BMM": tuple(BatchMatmul(batch=2, rows=16, inner=n, columns=32) for n in (32, 64)),
    "GRP": tuple(GroupConv2d(in_channels=n, out_channels=32, groups=4, **_AROUND) for n in (16, 32)),
    "DEP": tuple(DepthwiseConv2d(in_channels=n, **_AROUND) for n in (16, 32)),
    "T2D": tuple(
        TransposedConv2d(
            batch=1,
            in_channels=n,
            height=4,
            width=4,
            out_channels=16,
            kernel=(4, 4),
            stride=(2, 2),
            padding=(1, 1),
        )
        for n in (16, 32)
    ),
    "CAP": tuple(CapsuleConv2d(in_channels=n, out_channels=4, **_AROUND) for n in (2, 4)),
    "WIN": tuple(
        WinogradConv2d(batch=1, in_channels=n, height=8, width=8, out_channels=16, padding=(1, 1))
        for n in (16, 32)
    ),
    "FRB": tuple(FrobeniusNorm(batch=16, rows=16, columns=n) for n in (16, 64)),
}
"""Parent and child of each type."""


class NotReusedError(AssertionError):
    """The reuse tuner passes over the parent's program."""


def tuner_programs(parent: OperatorSettings, child: Task, seed: int = 0) -> list[tvm.IRModule]:
    """Programs that Algorithm 1 measures for a child by a random program of a parent, in their order.

    Latencies are random numbers, so that any candidate may be the best of a step. Raises NotReusedError.
    """
    task = to_task(parent)
    (program,) = random_candidates(task, 1, seed=seed)
    given = ReuseParent(task, candidate_trace_json(program))
    strategy = ReuseConfig(rank="paper", backend="evolutionary")
    config = OneShotConfig(
        strategy=strategy, rounds=1, top_k=_ROUND, replay_factor=1, max_code=None, surrogate=False
    )
    session = SearchSession(
        child, TARGET, SessionResources(ms.cost_model.RandomModel(), config, None, threads=1)
    )
    drawn = np.random.default_rng(seed)
    programs = []
    while proposed := session.propose(RoundBudget(_ROUND), parents=[given]):
        if session.counts.rejected.get(NO_REUSE):
            raise NotReusedError(f"{child.name}: {session.counts.rejected}")
        programs += [session.known.program(candidate.trace).sch.mod for candidate in proposed]
        session.learn({candidate.trace: float(drawn.uniform(1e-3, 2e-3)) for candidate in proposed})
    return programs


def spread(programs: list[tvm.IRModule], count: int) -> list[tvm.IRModule]:
    """Up to `count` of the programs in even steps, with the first and the last."""
    return [programs[i] for i in np.unique(np.linspace(0, len(programs) - 1, count).astype(int))]
