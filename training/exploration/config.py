"""Settings of `foretune reinforce`; conf/reinforce.yaml describes each field."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...configuration import ConfigError, check_seed
from .reward import RewardConfig


@dataclass(frozen=True)
class WalkConfig:
    """Walks of an epoch that fill the replay memory."""

    spaces: int = 48
    starts: int = 8
    steps: int = 16

    def __post_init__(self) -> None:
        _at_least(self, "walk", spaces=1, starts=1, steps=1)


@dataclass(frozen=True)
class LearningConfig:
    """Q-learning (Fasor, Algorithm 1 and section 7)."""

    discount: float = 0.95
    learning_rate: float = 5e-4
    batch_size: int = 256
    updates: int = 150
    memory: int = 100_000
    epsilon: float = 0.1
    epsilon_decay: float = 10.0
    gradient_clip: float = 1.0

    def __post_init__(self) -> None:
        _at_least(self, "learning", batch_size=1, updates=1, memory=1)
        for name in ("discount", "epsilon"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"learning.{name}={getattr(self, name)}: set it within [0, 1]")
        for name in ("learning_rate", "epsilon_decay", "gradient_clip"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"learning.{name}={getattr(self, name)}: set it above 0")


@dataclass(frozen=True)
class JudgingConfig:
    """Searches with the network that choose the best epoch and test the result."""

    spaces: int = 24
    candidates: int = 64
    draws: int = 16
    walks: int = 1

    def __post_init__(self) -> None:
        _at_least(self, "judging", spaces=1, candidates=1, draws=1, walks=1)


@dataclass(frozen=True)
class ReinforceConfig:
    """Settings of a training of an explorer."""

    dataset: list[Path]
    run_dir: Path
    checkpoint_dir: Path
    environment: str = "cpu-draft"
    tasks: int | None = 600
    test_operators: list[str] = field(default_factory=lambda: ["conv1d", "group_conv2d", "batch_matmul"])
    width: int = 256
    epochs: int = 50
    reward: RewardConfig = field(default_factory=RewardConfig)
    walk: WalkConfig = field(default_factory=WalkConfig)
    learning: LearningConfig = field(default_factory=LearningConfig)
    judging: JudgingConfig = field(default_factory=JudgingConfig)
    threads: int | None = None
    seed: int = 0
    resume: bool = False

    def __post_init__(self) -> None:
        if not self.dataset:
            raise ConfigError("dataset=[]: name the datasets whose tasks the explorer learns on")
        _at_least(self, "", width=1, epochs=1, tasks=1, threads=1)
        check_seed("seed", self.seed)


def _at_least(config: Any, group: str, **least: int) -> None:
    for name, lowest in least.items():
        value = getattr(config, name)
        if value is not None and value < lowest:
            option = f"{group}.{name}" if group else name
            raise ConfigError(f"{option}={value}: must be at least {lowest}")
