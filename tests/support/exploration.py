"""A matrix product to explore, and judges of its programs by hand, for tests of exploration without TVM."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from foretune.compiler.structure.space import SketchSpace
from foretune.dataset.features.recorded_spaces import RecordedSpace
from foretune.dataset.features.vectors import TASK_DIM
from foretune.models.architectures.explorer import STATE_VERSION, ActionValueNetwork, Explorer
from foretune.models.architectures.registry import ModelConfig
from foretune.models.checkpoints.card import Card, DataSummary, SplitSummary
from foretune.models.checkpoints.checkpoint import save_checkpoint
from foretune.models.scaling.normaliser import Normaliser
from foretune.models.scaling.target import TargetConfig
from foretune.training.exploration.environment import Environment, Observation, TaskSpace

from .drafts import CPU, matmul, matmul_trace


class JudgedByHand(Environment):
    """Environment in which a function of the values decides on the logarithm of the latency."""

    def __init__(self, time: Callable[[np.ndarray], np.ndarray]) -> None:
        self.time = time
        self.observed = 0

    def observe(self, spaces, choices):
        times = [self.time(space.space.values(rows)) for space, rows in zip(spaces, choices, strict=True)]
        self.observed += sum(map(len, times))
        return Observation(
            np.concatenate([space.vectors(rows) for space, rows in zip(spaces, choices, strict=True)]),
            np.concatenate(
                [np.tile(space.device, (len(rows), 1)) for space, rows in zip(spaces, choices, strict=True)]
            ),
            np.concatenate(times),
            np.ones(sum(map(len, times))),
            np.concatenate([s.moves.legal(rows) for s, rows in zip(spaces, choices, strict=True)]),
        )


def recorded(
    i: int = 64, j: int = 64, k: int = 64, name: str = "a", operator: str = "dense"
) -> RecordedSpace:
    """Space of a matrix product with eight made-up records."""
    structure = matmul(i, j, k)
    trace = matmul_trace([i, 1, 1, 1], [j, 1, 1, 1], [k, 1])
    space = SketchSpace.from_traces([trace], structure)
    task = np.zeros(TASK_DIM, dtype=np.float32)
    task[46:48] = 20, 14  # about 10^6 operations and 16 KB
    programs = space.sample(8, np.random.default_rng(0))
    return RecordedSpace(name, name, operator, CPU, space, structure, task, programs, np.full(8, 1e-3))


def space_of(found: RecordedSpace) -> TaskSpace:
    """The space as the environment sees it."""
    return TaskSpace(found.space, found.structure, found.task, found.hardware)


def random_explorer(seed: int = 0) -> Explorer:
    """Explorer with random weights, normalised on the matrix product."""
    found = recorded()
    space, rng = space_of(found), np.random.default_rng(seed)
    seen = JudgedByHand(lambda values: values[:, 0].astype(float)).observe([space], [space.draw(64, rng)])
    states = seen.states(0.5)
    normaliser = Normaliser.fit(states, np.arange(len(states)))
    torch.manual_seed(seed)
    return Explorer(normaliser, ActionValueNetwork(normaliser.dims, width=16).eval())


def explorer_checkpoint(folder, version: str = STATE_VERSION):
    """A checkpoint of an explorer with random weights, with the version of states and actions on its card."""
    explorer = random_explorer()
    card = Card(
        feature_version=version,
        model=ModelConfig("dqn", {"width": 16}),
        target=TargetConfig("log_score"),
        normaliser=explorer.normaliser,
        data=DataSummary("0" * 64, records=8, tasks=1, hardware_ids=[], operators=["dense"]),
        split=SplitSummary({"by": "checkpoint"}, ["a"], [], []),
        metrics={"test": {"explorer_score": 0.5}},
        seed=0,
    )
    save_checkpoint(folder, explorer.network, card)
    return folder
