"""The settings of a search and of its validation: conf group `search`."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import UserError

STRATEGIES = ("draft", "evolutionary", "annealing")
AUTO = "auto"
OVERLAPS = ("all", "building", "none")


class OneShotConfigError(UserError, ValueError):
    """A setting of the One-Shot search cannot be."""


@dataclass(frozen=True)
class StopConfig:
    """How many candidates of a task are worth a validation.

    With `expected_improvement` 0 every candidate proposed is validated: the paper's fixed K. Above it, the
    candidates go in the order of what they may gain, and the rest is left where the next few are not expected
    to lower the best latency by this share, `patience` times in a row. `search.top_k` caps both.
    """

    expected_improvement: float = 0.003
    # Candidates of a task that are validated before it may stop.
    minimum: int = 8
    # Candidates that are validated together once it may.
    batch: int = 4
    # Batches in a row that promise less before it stops: some that promise little tell that others do not.
    patience: int = 2

    def __post_init__(self) -> None:
        if not 0 <= self.expected_improvement < 1:
            raise OneShotConfigError(
                f"search.stop.expected_improvement={self.expected_improvement}: a share of the latency in "
                "[0, 1); use 0.003 for three in a thousand, or 0 to validate a fixed number"
            )
        for name in ("minimum", "batch", "patience"):
            if getattr(self, name) < 1:
                raise OneShotConfigError(f"search.stop.{name}={getattr(self, name)}: must be at least 1")


@dataclass(frozen=True)
class DraftingConfig:
    """The strategy `draft`: a model of decisions rates candidates by the thousand, the best are verified."""

    # Name of a shipped checkpoint of draft features, or the folder of one; "auto" is the shipped one that
    # fits the target. Where none fits, and with null, the search is evolutionary.
    checkpoint: str | None = AUTO
    # Candidates rated a generation, without a replay.
    population: int = 1024
    generations: int = 6
    # The best of them, among which the measurements choose what to replay.
    keep: int = 256
    # The same of each round after the first, which goes on from the fastest that were measured.
    refine_population: int = 256
    refine_generations: int = 3
    refine_keep: int = 64
    # Share of these that evolves apart on a CPU, by programs alone whose innermost loop is vectorised.
    vectorised_share: float = 0.5
    # Share of these that evolves apart on a CPU where most others do not look: computing a padded image or
    # another input in full before the loops that read it, around their reduction, or within it, and unrolling
    # what leaves out the zeros of a transposed convolution.
    elsewhere_share: float = 0.4
    # Standard deviations that a candidate's output is lowered by, where the draft model tells them. A search
    # through thousands ends at what a model overrates, which its members seldom agree on.
    caution: float = 1.0

    def __post_init__(self) -> None:
        least_of = {"population": 1, "generations": 0, "keep": 1, "caution": 0}
        least_of |= {"refine_population": 1, "refine_generations": 0, "refine_keep": 1}
        for name, least in least_of.items():
            if getattr(self, name) < least:
                raise OneShotConfigError(
                    f"search.draft.{name}={getattr(self, name)}: must be at least {least}"
                )
        for name in ("vectorised_share", "elsewhere_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise OneShotConfigError(f"search.draft.{name}={getattr(self, name)}: must be in [0, 1]")


@dataclass(frozen=True)
class OneShotConfig:
    """The search and its validation.

    One-Shot Tuner's Table 2 validates 64 candidates and evolves 512 for 120 steps, which its templates allow
    at no cost. A MetaSchedule candidate costs milliseconds to replay, so by default a draft model evolves
    thousands by their decisions alone, and only those are replayed that may gain most by what was measured
    before; evolution and annealing with the cost model search less. Each round starts from the fastest that
    were measured; one round is the paper's.
    """

    strategy: str = "draft"
    rounds: int = 6
    # A task of a network gets no further round where it takes less of the network's latency than this, in
    # even shares of all tasks, for each round that it has had; 0 gives every task all rounds, and so does a
    # task that is alone.
    least_share: float = 0.5
    # Of evolution and annealing: programs of a round that evolve, or chains that are annealed side by side.
    population_size: int = 40
    # Of the same: generations of a round, or steps of its chains.
    generations: int = 2
    # Evolution alone.
    mutation_probability: float = 0.85
    # Annealing alone: of the first step, in units of the score; and steps without a better program after
    # which a round ends, null for none.
    temperature: float = 1.0
    early_stop: int | None = None
    # Share of the validated candidates drawn at random: insurance against a model that is wrong everywhere.
    random_share: float = 0.05
    # Candidates measured in all rounds, K in the paper.
    top_k: int = 48
    # Programs that a round replays and hands over for each that it may measure. Among these and what earlier
    # rounds left the measurements so far choose, unless `stop.expected_improvement` is 0: then the best
    # predicted are measured.
    choice: int = 2
    # The best of each round that are timed once more, one after the other, before one of them is taken; 0
    # takes what was best when timed once.
    finalists: int = 3
    # Vector instructions of a program at most, by `code_size`; None for no limit. What is longer takes LLVM
    # seconds, and of 61 tasks it had the best program of a single one, see benchmarks/code_limit.py.
    max_code: int | None = 6000
    # Rounds after those, which go to the tasks that may gain most; Fasor's high-quality mode.
    extra_rounds: int = 0
    # Whether the search learns from what the run measures, by a correction on top of the frozen model.
    residual: bool = True
    stop: StopConfig = field(default_factory=StopConfig)
    draft: DraftingConfig = field(default_factory=DraftingConfig)
    # Processes that search, each a task of its own; null is one a core and at most 8, 0 searches between
    # measurements.
    processes: int | None = None
    # While programs are measured on the cores that search: "building" holds the search back while one is
    # timed, "none" while one is built too, "all" never.
    overlap: str = "building"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, known in (("strategy", STRATEGIES), ("overlap", OVERLAPS)):
            if getattr(self, name) not in known:
                raise OneShotConfigError(f"search.{name}={getattr(self, name)}: use {', '.join(known)}")
        for name in ("population_size", "top_k", "rounds", "choice", "max_code"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise OneShotConfigError(f"search.{name}={value}: must be at least 1")
        if self.rounds > self.top_k:
            raise OneShotConfigError(
                f"search.rounds={self.rounds}: each validates a candidate at least; use at most "
                f"search.top_k={self.top_k}"
            )
        for name in ("generations", "extra_rounds", "finalists", "processes", "temperature", "least_share"):
            if (getattr(self, name) or 0) < 0:
                raise OneShotConfigError(f"search.{name}={getattr(self, name)}: must not be negative")
        if self.strategy == "annealing" and self.generations < 1:
            raise OneShotConfigError(
                f"search.generations={self.generations}: annealing takes a step at least; use 1 or more"
            )
        if self.early_stop is not None and self.early_stop < 1:
            raise OneShotConfigError(
                f"search.early_stop={self.early_stop}: must be at least 1, or null for no early stop"
            )
        for name in ("mutation_probability", "random_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise OneShotConfigError(f"search.{name}={getattr(self, name)}: must be in [0, 1]")

    @property
    def per_round(self) -> int:
        """Candidates measured a round at most."""
        return -(-self.top_k // self.rounds)

    def room(self, full_rounds: int) -> int:
        """Candidates that the round after so many others may measure; rounds after all `rounds` are extra."""
        if full_rounds >= self.rounds:
            return self.per_round
        measured, then = (-(-self.top_k * rounds // self.rounds) for rounds in (full_rounds, full_rounds + 1))
        return then - measured

    @property
    def handed_over(self) -> int:
        """Candidates that a round proposes, for these to be chosen from."""
        return self.per_round * self.choice
