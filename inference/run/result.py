"""Result of one tuning run: tasks, latencies of the network, time spent. `result_file` stores it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .network_profile import NetworkProfile

TUNED = "tuned TVM"
UNTUNED = "untuned TVM"
EAGER = "PyTorch eager"
BY_LOAD = "foretune.load"
BY_STOCK = "stock TVM with nothing set"

NOTHING_TO_TUNE = "nothing to tune"
UNTUNED_IS_FASTER = "untuned is faster"
NOT_BUILT = "TVM builds no code for its schedule in the network"
"""Reasons why a task that was searched to its end has no schedule."""


@dataclass(frozen=True)
class TaskResult:
    """Result of tuning one task. Latencies are seconds per call, None where none was measured."""

    name: str
    operator: str
    workload_hash: str
    weight: int
    """Number of calls in one run of the network."""
    flops: float
    """Floating-point operations of one call."""
    untuned_latency_s: float | None
    """Without a schedule; of an alternative that the network takes, that of the tasks that it replaces."""
    tuned_latency_s: float | None
    candidates_scored: int
    candidates_measured: int
    """Candidates built and run on the device, including those that failed."""
    candidates_failed: int
    search_s: float
    measure_s: float
    predicted_scores: list[float]
    """The cost model's score of each measured candidate, best first."""
    measured_latencies_s: list[float]
    """Latencies of the same candidates in the same order, +inf for a failure."""
    reason: str = ""
    """Reason why the task was not tuned; empty for a tuned task."""
    from_database: bool = False
    """True if the schedule came from a database, without a search."""
    family: str = ""
    """Name of the task's family, by `search.families`."""
    parent: str = ""
    """Name of the task whose adapted programs the search began with; empty for a search of its own."""
    parent_hash: str = ""
    """Workload hash of that task, which may be one of an earlier run."""
    predicted: bool = False
    """True if the task has a schedule by the cost model's prediction alone, which no device measured."""
    candidates_drafted: int = 0
    """Different candidates that the draft model rated by their decisions."""
    candidates_tried: int = 0
    """Candidates that were replayed into programs: those proposed and those rejected."""
    candidates_rejected: dict[str, int] = field(default_factory=dict)
    """Candidates that were tried and not proposed, by cause; see `CandidateCounts`."""
    candidates_proposed: int = 0
    """Valid programs that the search handed on to be measured."""
    failures: dict[str, int] = field(default_factory=dict)
    """Failed measurements by kind (`FailureKind`); they add up to `candidates_failed`."""
    alternative: bool = False
    """True for a task that the network calls only if it is faster than tasks of its own."""
    template: str = ""
    """Template for a GPU that the network runs in place of a schedule; empty for none."""

    def __post_init__(self) -> None:
        for name in ("untuned_latency_s", "tuned_latency_s"):
            latency = getattr(self, name)
            if latency is not None and not 0 < latency < math.inf:
                raise ValueError(
                    f"{name}={latency} of task {self.name}: a latency is positive and finite; "
                    "use None if nothing ran"
                )
        if len(self.predicted_scores) != len(self.measured_latencies_s):
            raise ValueError(
                f"task {self.name} has {len(self.predicted_scores)} predicted_scores and "
                f"{len(self.measured_latencies_s)} measured_latencies_s: give one of each per candidate"
            )

    @property
    def speedup(self) -> float | None:
        """Untuned latency over tuned latency, None unless both are known."""
        if self.untuned_latency_s is None or self.tuned_latency_s is None:
            return None
        return self.untuned_latency_s / self.tuned_latency_s

    @property
    def latency_s(self) -> float | None:
        """Latency as the network runs it: tuned if it was tuned, else untuned."""
        return self.untuned_latency_s if self.tuned_latency_s is None else self.tuned_latency_s

    @property
    def network_s(self) -> float | None:
        """Seconds that one run of the network spends in the task."""
        return None if self.latency_s is None else self.weight * self.latency_s

    @property
    def measured_scores(self) -> list[float]:
        """Best measured latency over each measured latency, 0 for a failure."""
        best = min(self.measured_latencies_s, default=math.inf)
        return [best / latency if latency < math.inf else 0.0 for latency in self.measured_latencies_s]


def by_tasks_s(tasks: Sequence[TaskResult], latency: Callable[[TaskResult], float | None]) -> float | None:
    """Sum of weight times `latency` over the tasks of a network, in seconds; None unless each is known.

    Tasks of weight 0 are no part of it.
    """
    own = [task for task in tasks if task.weight]
    times = [latency(task) for task in own]
    known = [time * task.weight for task, time in zip(own, times, strict=True) if time is not None]
    return sum(known) if known and len(known) == len(own) else None


def untuned_by_tasks_s(tasks: Sequence[TaskResult]) -> float | None:
    """`by_tasks_s` of the untuned latencies."""
    return by_tasks_s(tasks, lambda task: task.untuned_latency_s)


@dataclass(frozen=True)
class Contestant:
    """Form of the whole network, or rival that runs it, with its latency in seconds per run."""

    name: str
    """TUNED, UNTUNED, the title of a rival, or the caller's own name."""
    version: str = ""
    own_process: bool = True
    """Whether it ran in a process of its own; False beside other contestants."""
    ready_s: float | None = None
    """Seconds from the network as the user has it to the end of its first run."""
    peak_mb: float | None = None
    """Most memory that its process had resident, in megabytes."""
    samples_s: list[float] = field(default_factory=list)
    """Median latency of each turn."""
    median_s: float | None = None
    """Median of `samples_s`, None if it was not timed."""
    min_s: float | None = None
    disturbed: bool = False
    """Whether other work of the machine disturbed its timing, so that no ratio is claimed."""
    max_abs_difference: float | None = None
    """Difference of its outputs from the reference, None if not compared."""
    error: str = ""
    """Why it was not timed, or not to the end; empty where nothing failed."""
    dtype: str = ""
    """Data type of its products, "" where that is not known."""


@dataclass(frozen=True)
class Agreement:
    """Agreement of the outputs of a network in a narrower data type with those in float32.

    Differences are the largest absolute ones on the example inputs; shares are means over random inputs.
    """

    dtype: str
    inputs: int
    """Number of those random inputs."""
    rival_difference: float | None
    """Of the rival; None where it does not run the network in the data type."""
    top_1: float
    """Share of the rows of outputs whose largest element is where it is in float32."""
    rival_top_1: float | None
    """The same of the rival."""
    rival: str = "PyTorch"
    """Name of what else runs in the data type: PyTorch eager in bfloat16, ONNX Runtime in int8."""


def comparable(contestant: Contestant) -> bool:
    """Whether a ratio may be claimed from the contestant's latency."""
    return contestant.median_s is not None and not contestant.disturbed and not contestant.error


@dataclass(frozen=True)
class ComparisonRun:
    """Another tuning run of the same network, whose curve is drawn beside this one's."""

    name: str
    curve: list[tuple[float, float]]
    """Same layout as `TuneResult.curve`."""


@dataclass(frozen=True)
class AlternativeResult:
    """Another way to compute a piece of the network; latencies are seconds of one place, None if unknown."""

    name: str
    """The algorithm, and the functions that it replaces."""
    replaced: list[str]
    """Names of the tasks that it replaces, called in a row."""
    tasks: list[str]
    """Names of the tasks that take their place."""
    places: int
    """Places of the network that it is offered for."""
    taken: int
    """Places where the compiled network computes it so; 0 where something else is faster."""
    direct_s: float | None
    """Sum of the replaced tasks."""
    alternative_s: float | None
    """Sum of the tasks that take their place."""


@dataclass(frozen=True)
class NetworkOutcome:
    """One network of a set that was tuned together."""

    name: str
    """Name in the set, and of the folder with its own report."""
    tasks: int
    """Number of its tasks, of which others of the set may have some, too."""
    median_s: float | None = None
    """Latency of the tuned network, None unless it was timed without disturbance."""
    rival: str = ""
    """The fastest rival that was timed without disturbance, "" for none."""
    rival_s: float | None = None
    outputs_match: bool | None = None
    """None if not compared."""
    error: str = ""
    """Why it was not tuned, compiled or timed; empty where nothing failed."""


@dataclass(frozen=True)
class TuneResult:
    """One tuning run, of one network or of a set."""

    network: str
    target: str
    hardware: str
    checkpoint: str
    settings: dict[str, Any]
    tasks: list[TaskResult]
    contestants: list[Contestant]
    """Forms of the network and rivals; empty where the network did not run here."""
    max_abs_difference: float | None
    """Difference of the tuned network's outputs from the reference; NaN if an output is NaN, None if not
    compared."""
    tolerance: float
    """Largest absolute difference that counts as equal."""
    total_s: float
    stage_s: dict[str, float]
    """Wall time of each stage; they add up to at most `total_s`."""
    curve: list[tuple[float, float]]
    """Pairs (seconds since the start, estimated latency of the network in seconds with the best schedules so
    far); the estimate is +inf until every task has a latency."""
    versions: dict[str, str]
    started_at: str
    """ISO 8601, with the time zone."""
    profile_s: dict[str, float] = field(default_factory=dict)
    """Seconds of work by step, summed over all processes that search and measure."""
    power_w: float | None = None
    """Assumed power of the machine while it tunes, in watts; None for no estimate of energy."""
    co2_kg_per_kwh: float | None = None
    """Assumed emission per kilowatt-hour."""
    pretraining_s: float | None = None
    """Seconds that measuring the data and training the models of the search took once, for all runs; None
    without a model, or where its card does not tell."""
    comparison_runs: list[ComparisonRun] = field(default_factory=list)
    simulated: bool = False
    """True for a dry run, whose latencies are made up."""
    exported: list[Contestant] = field(default_factory=list)
    """Latencies of the exported library in a process of its own, BY_LOAD and BY_STOCK; empty without one."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Rivals that could not take part, with the reason."""
    network_profile: NetworkProfile | None = None
    """The tuned network by its calls, timed beside nothing else in the process that tuned it; None if it did
    not run there, on its CPU."""
    recast: list[str] = field(default_factory=list)
    """Operators that run in another data type, since TVM builds no code for their own, such as
    `equal of bool in int32`."""
    float_products: int = 0
    """Number of products of a network in int8 that stay float32, since they have no form in integers."""
    peak_gflops: float | None = None
    """Measured float32 peak of the target's cores in 10^9 operations a second, None where it was not
    measured."""
    agreement: Agreement | None = None
    """Agreement with the network in float32, None where it is in float32 or did not run here."""
    alternatives: list[AlternativeResult] = field(default_factory=list)
    """Alternatives to the tasks as the network has them, with those that it takes; tasks that it does without
    have weight 0."""
    networks: list[NetworkOutcome] = field(default_factory=list)
    """Networks of a set, empty for a single one; weights of a set's `tasks` are sums over its networks."""

    def median_s(self, name: str) -> float | None:
        """Median latency of a contestant, None unless it was timed without disturbance."""
        return next((one.median_s for one in self.contestants if one.name == name and comparable(one)), None)

    def speedup_over(self, name: str) -> float | None:
        """Median latency under `name` over the tuned network's, None unless both are comparable."""
        tuned_s, other_s = self.median_s(TUNED), self.median_s(name)
        return None if tuned_s is None or other_s is None else other_s / tuned_s

    def rivals(self) -> list[Contestant]:
        """Contestants other than the two forms that TVM compiled: fastest first, failed ones last."""
        others = [one for one in self.contestants if one.name not in (TUNED, UNTUNED)]
        return sorted(others, key=lambda one: math.inf if one.error else one.median_s or math.inf)

    def best_rival(self) -> Contestant | None:
        """The fastest rival that was timed without disturbance."""
        return next(filter(comparable, self.rivals()), None)

    @property
    def outputs_match(self) -> bool | None:
        """True if outputs are equal within the tolerance (NaN never is), None if not compared."""
        return None if self.max_abs_difference is None else self.max_abs_difference <= self.tolerance

    def bridges(self) -> list[TaskResult]:
        """Tasks that neither the network nor an alternative has, which a search added for others to reuse."""
        replaced = {name for one in self.alternatives for name in one.replaced}
        return [task for task in self.tasks if not (task.weight or task.alternative or task.name in replaced)]

    def shares(self) -> list[float | None]:
        """Each task's share of the time that the network spends in its tasks, in the order of `tasks`."""
        times = [task.network_s for task in self.tasks]
        total = sum(time for time in times if time is not None)
        return [None if time is None else time / total for time in times]
