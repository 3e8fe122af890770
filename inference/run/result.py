"""Result of one tuning run: tasks, network latencies, time spent. `result_file` stores it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .core_timeline import CoreSample
from .network_profile import NetworkProfile
from .written_library import WrittenLibrary

TUNED = "tuned TVM"
UNTUNED = "untuned TVM"
EAGER = "PyTorch eager"
BY_LOAD = "foretune.load"
BY_STOCK = "stock TVM with nothing set"

NOTHING_TO_TUNE = "nothing to tune"
UNTUNED_IS_FASTER = "untuned is faster"
NO_CANDIDATE_RAN = "no candidate ran"
NO_CANDIDATE = "no candidate was found"
FAST_ENOUGH = "the network reaches latency_target_s without it"
NO_TIME = "the limits of the run left no time for it"
NOT_BUILT = "TVM builds no code for its schedule in the network"
WRONG = "its schedule computes other values"
BEATEN = "an alternative is faster"
"""Reasons why a task has no schedule."""


@dataclass(frozen=True)
class TaskResult:
    """Result of tuning one task. Latencies are seconds per call, or None if not measured."""

    name: str
    operator: str
    workload_hash: str
    weight: int
    """Number of calls in one run of the network."""
    flops: float
    """Floating-point operations of one call."""
    untuned_latency_s: float | None
    """Latency without a schedule. For an alternative in use, the latency of the replaced tasks."""
    tuned_latency_s: float | None
    candidates_scored: int
    candidates_measured: int
    """Number of candidates built and run on the device, including failed ones."""
    candidates_failed: int
    search_s: float
    measure_s: float
    predicted_scores: list[float]
    """The cost model's score of each measured candidate, best first."""
    measured_latencies_s: list[float]
    """Latencies of the same candidates in the same order; +inf for a failure."""
    reason: str = ""
    """Reason why the task was not tuned, or empty."""
    from_database: bool = False
    """True if the schedule came from a database, without a search."""
    family: str = ""
    """Name of the task's family, by `search.families`."""
    parent: str = ""
    """Name of the task whose adapted programs the search began with; empty if the search started fresh."""
    parent_hash: str = ""
    """Workload hash of that task, which may belong to an earlier run."""
    predicted: bool = False
    """Whether the schedule rests on the cost model's prediction alone, without a measurement."""
    candidates_drafted: int = 0
    """Number of different candidates that the draft model rated by their decisions."""
    candidates_tried: int = 0
    """Number of candidates replayed into programs: proposed ones and rejected ones."""
    candidates_rejected: dict[str, int] = field(default_factory=dict)
    """Rejected candidates by cause; see `CandidateCounts`."""
    candidates_proposed: int = 0
    """Number of valid programs that the search submitted for measurement."""
    failures: dict[str, int] = field(default_factory=dict)
    """Failed measurements by kind (`FailureKind`); their sum is `candidates_failed`."""
    alternative: bool = False
    """Whether the task belongs to an alternative, which the network calls only if it is faster."""
    template: str = ""
    """GPU template that the network runs instead of a schedule, or empty."""

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
        """Untuned latency over tuned latency; None unless both are known."""
        if self.untuned_latency_s is None or self.tuned_latency_s is None:
            return None
        return self.untuned_latency_s / self.tuned_latency_s

    @property
    def latency_s(self) -> float | None:
        """Latency in the network: the tuned latency if the task was tuned, otherwise the untuned one."""
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

    Tasks of weight 0 do not count.
    """
    own = [task for task in tasks if task.weight]
    times = [latency(task) for task in own]
    known = [time * task.weight for task, time in zip(own, times, strict=True) if time is not None]
    return sum(known) if known and len(known) == len(own) else None


def untuned_by_tasks_s(tasks: Sequence[TaskResult]) -> float | None:
    """`by_tasks_s` for the untuned latencies."""
    return by_tasks_s(tasks, lambda task: task.untuned_latency_s)


@dataclass(frozen=True)
class Contestant:
    """Form of the whole network, or a rival that runs it, with its latency in seconds per run."""

    name: str
    """TUNED, UNTUNED, the title of a rival, or the caller's own name."""
    version: str = ""
    own_process: bool = True
    """Whether it ran in a separate process; False for a contestant that shared the tuning process."""
    ready_s: float | None = None
    """Seconds from the user's form of the network to the end of its first run."""
    peak_mb: float | None = None
    """Peak resident memory of its process, in megabytes."""
    samples_s: list[float] = field(default_factory=list)
    """Median latency of each turn."""
    median_s: float | None = None
    """Median of `samples_s`, None if it was not timed."""
    min_s: float | None = None
    disturbed: bool = False
    """Whether other work on the machine disturbed the timing, so that no ratio is claimed."""
    max_abs_difference: float | None = None
    """Difference of its outputs from the reference, None if not compared."""
    error: str = ""
    """Reason why it was not timed, or not completely; empty after a success."""
    dtype: str = ""
    """Data type of its products, or "" if unknown."""


@dataclass(frozen=True)
class Agreement:
    """Agreement of the outputs of a network in a narrower data type with the float32 outputs.

    Differences are the largest absolute ones on the example inputs; shares are means over random inputs.
    """

    dtype: str
    inputs: int
    """Number of those random inputs."""
    rival_difference: float | None
    """Difference of the rival; None if it cannot run the network in the data type."""
    top_1: float
    """Share of output rows whose largest element has the same position as in float32."""
    rival_top_1: float | None
    """The same share for the rival."""
    rival: str = "PyTorch"
    """Name of the rival in this data type: PyTorch eager in bfloat16, ONNX Runtime in int8."""


def comparable(contestant: Contestant) -> bool:
    """Whether the contestant's latency supports a ratio."""
    return contestant.median_s is not None and not contestant.disturbed and not contestant.error


@dataclass(frozen=True)
class ComparisonRun:
    """Another tuning run of the same network, for comparing the curves in one plot."""

    name: str
    curve: list[tuple[float, float]]
    """Same layout as `TuneResult.curve`."""


@dataclass(frozen=True)
class AlternativeResult:
    """Another algorithm for a piece of the network; latencies are seconds at one place, None if unknown."""

    name: str
    """The algorithm, and the functions that it replaces."""
    replaced: list[str]
    """Names of the replaced tasks, which the network calls in a row."""
    tasks: list[str]
    """Names of the tasks that replace them."""
    places: int
    """Number of places in the network that could use it."""
    taken: int
    """Number of places at which the compiled network uses it; 0 if another algorithm is faster."""
    direct_s: float | None
    """Sum over the replaced tasks."""
    alternative_s: float | None
    """Sum over the tasks that replace them."""


@dataclass(frozen=True)
class NetworkOutcome:
    """One network of a set that was tuned together."""

    name: str
    """Name in the set, and of the folder with its own report."""
    tasks: int
    """Number of its tasks, including tasks that other networks of the set share."""
    median_s: float | None = None
    """Latency of the tuned network, None unless it was timed without disturbance."""
    rival: str = ""
    """The fastest rival with an undisturbed timing, or ""."""
    rival_s: float | None = None
    outputs_match: bool | None = None
    """None if not compared."""
    error: str = ""
    """Reason why it was not tuned, compiled or timed; empty after a success."""


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
    """Forms of the network and rivals; empty if the network did not run here."""
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
    compared_on: list[str] = field(default_factory=list)
    """Names of the inputs on which outputs were compared; empty if they were not, and in older files."""
    unchecked: list[str] = field(default_factory=list)
    """A text for each output whose comparison says nothing, such as `output 1 is 0 everywhere`."""
    power_w: float | None = None
    """Assumed power of the machine during tuning, in watts; None disables the estimate of energy."""
    co2_kg_per_kwh: float | None = None
    """Assumed emission per kilowatt-hour."""
    pretraining_s: float | None = None
    """Seconds spent once, for all runs, on measuring the data and training the models of the search; None
    without a model, or if its card lacks them."""
    comparison_runs: list[ComparisonRun] = field(default_factory=list)
    simulated: bool = False
    """Whether this is a dry run, with made-up latencies."""
    exported: list[Contestant] = field(default_factory=list)
    """Latencies of the exported library in a new process, BY_LOAD and BY_STOCK; empty without a library."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Reasons of the rivals that could not take part, by title."""
    network_profile: NetworkProfile | None = None
    """Profile of the tuned network by its calls, timed alone in the process that tuned it; None if it did not
    run there, on its CPU."""
    recast: list[str] = field(default_factory=list)
    """Operators that run in another data type because TVM cannot build code for their own, such as `equal of
    bool in int32`."""
    layout_kept: bool = False
    """Whether TVM's conversion to channels last failed, so that the network has its own layout."""
    float_products: int = 0
    """Number of products in an int8 network that stay float32, because they have no integer form."""
    peak_gflops: float | None = None
    """Measured float32 peak of the target's cores in 10^9 operations a second; None if not measured."""
    library_s: float | None = None
    """Seconds from the start until the network was compiled, compared and written; None if it was not, and in
    older files."""
    libraries: list[WrittenLibrary] = field(default_factory=list)
    """Libraries that the run wrote, each in place of the one before."""
    cores: list[CoreSample] = field(default_factory=list)
    """Use of the cores over the run; empty in older files."""
    available_cores: int = 1
    """Cores that the run may use."""
    peak_mb: float | None = None
    """Peak memory of the run with all its processes, in megabytes; None if unknown."""
    estimated_peak_mb: float | None = None
    """Estimate of `peak_mb` before the search; None for a run that compiled nothing."""
    agreement: Agreement | None = None
    """Agreement with the float32 network; None for a float32 network and for one that did not run here."""
    alternatives: list[AlternativeResult] = field(default_factory=list)
    """Alternatives to the network's tasks, both used and unused; tasks that the network no longer uses have
    weight 0."""
    networks: list[NetworkOutcome] = field(default_factory=list)
    """Networks of a set; empty for a single network. Weights of a set's `tasks` are sums over networks."""

    def median_s(self, name: str) -> float | None:
        """Median latency of a contestant; None unless it was timed without disturbance."""
        return next((one.median_s for one in self.contestants if one.name == name and comparable(one)), None)

    def speedup_over(self, name: str) -> float | None:
        """Median latency under `name` over the tuned network's; None unless both are comparable."""
        tuned_s, other_s = self.median_s(TUNED), self.median_s(name)
        return None if tuned_s is None or other_s is None else other_s / tuned_s

    def rivals(self) -> list[Contestant]:
        """Contestants except for TVM's two compiled forms: fastest first, failed ones last."""
        others = [one for one in self.contestants if one.name not in (TUNED, UNTUNED)]
        return sorted(others, key=lambda one: math.inf if one.error else one.median_s or math.inf)

    def best_rival(self) -> Contestant | None:
        """The fastest rival with an undisturbed timing."""
        return next(filter(comparable, self.rivals()), None)

    @property
    def outputs_match(self) -> bool | None:
        """Whether outputs are equal within the tolerance (NaN never is); None if not compared."""
        return None if self.max_abs_difference is None else self.max_abs_difference <= self.tolerance

    def bridges(self) -> list[TaskResult]:
        """Tasks that neither the network nor an alternative has; a search adds them for others to reuse."""
        replaced = {name for one in self.alternatives for name in one.replaced}
        return [task for task in self.tasks if not (task.weight or task.alternative or task.name in replaced)]

    def shares(self) -> list[float | None]:
        """Each task's share of the network's time in tasks, in the order of `tasks`."""
        times = [task.network_s for task in self.tasks]
        total = sum(time for time in times if time is not None)
        return [None if time is None else time / total for time in times]
