"""Generation of records: of one task, by rounds of proposing, measuring and learning, and of a whole run."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Event, Lock

import tvm

from ...compiler.spaces.measurable_space import PYTHON_POSTPROCESSOR, python_cause
from ...compiler.task import Task
from ...compiler.tvm_compat import NoDesignSpaceError, target_to_json
from ..measure import MeasureJob, MeasureOutcome
from ..measure.machine_errors import BatchEndedError
from ..records.schema import Record
from ..records.store import RecordStore
from ..records.stored_tasks import task_row
from ..sampling.programs import best_latency_s
from .config import GenerateConfig
from .earlier_records import EarlierRecords
from .progress import GenerateProgress
from .samplers import Samplers, SamplingFailedError, SamplingStoppedError
from .sampling import SamplingRequest, measured_values, outcome_values
from .summary import GenerateSummary
from .testbed import ProbedOutcome, Testbed


class Generation:
    """Generator that runs one task after another; several threads, each with a device, may share it."""

    def __init__(
        self,
        config: GenerateConfig,
        store: RecordStore,
        testbed: Testbed,
        samplers: Samplers,
        earlier: EarlierRecords,
        progress: GenerateProgress,
        deadline: float,
        traces: Mapping[str, Sequence[str]],
    ) -> None:
        """`deadline` is a time of `time.monotonic`; `traces` come from a database, by workload hash."""
        self.summary = GenerateSummary(total_records=earlier.total, total_valid=earlier.total_valid)
        self._config = config
        self._store = store
        self._testbed = testbed
        self._samplers = samplers
        self._earlier = earlier
        self._progress = progress
        self._deadline = deadline
        self._traces = traces
        self._lock = Lock()

    def run_task(self, task: Task, device: int, stop: Event) -> None:
        """Measure a task on a device until it has its records, the time is up or `stop` is set."""
        if self._is_time_up():
            return
        if task.workload_hash in self._earlier.done:
            self._end_task(self._config.records_per_task)
            return
        earlier = self._earlier.take(task.workload_hash)
        wanted = self._config.records_per_task - len(earlier)
        traces = self._traces.get(task.workload_hash, ())
        generator = TaskGenerator(
            task, self._testbed, self._samplers, self._config, device=device, traces=traces
        )
        self._progress.start_task(task.name)
        measured = 0
        try:
            for records in generator.rounds(earlier, self._deadline):
                self._keep(records)
                measured += len(records)
                if self._is_full():
                    stop.set()
                if stop.is_set():
                    return
        except SamplingStoppedError:
            self._is_time_up()
        except BatchEndedError as ended:
            if ended.reason is not None:
                raise ended.reason from ended
            self._is_time_up()
        except (NoDesignSpaceError, SamplingFailedError) as error:
            self._give_up(task, error)
            self._progress.advance(wanted - measured)
        else:
            if not measured and not earlier:
                self._note(lambda summary: summary.without_program.append(task.name))
            self._end_task(wanted - measured)
        finally:
            self._note(lambda summary: summary.rejected.update(generator.rejected))
            self._note(lambda summary: summary.dropped.update(generator.dropped))

    def _give_up(self, task: Task, error: Exception) -> None:
        if isinstance(error, NoDesignSpaceError):
            self._note(lambda summary: summary.without_space.append(task.name))
        else:
            self._note(lambda summary: summary.given_up.update({task.name: str(error)}))

    def _note(self, change: Callable[[GenerateSummary], None]) -> None:
        with self._lock:
            change(self.summary)

    def _end_task(self, records_left: int) -> None:
        if self._is_time_up():
            return
        with self._lock:
            self.summary.tasks_done += 1
        self._progress.advance(records_left)

    def _keep(self, records: list[Record]) -> None:
        if not records:
            return
        with self._lock:
            with self._testbed.clock.stage("storing"):
                self._store.append_records(records)
            self.summary.count(records)
            self._progress.measured(len(records))

    def _is_full(self) -> bool:
        most = self._config.max_records
        self.summary.full = most is not None and self.summary.measured >= most
        return self.summary.full

    def _is_time_up(self) -> bool:
        if time.monotonic() > self._deadline:
            self.summary.out_of_time = True
        return self.summary.out_of_time


class TaskGenerator:
    """Generator of the records of one task on one device."""

    def __init__(
        self,
        task: Task,
        testbed: Testbed,
        samplers: Samplers,
        config: GenerateConfig,
        *,
        device: int = 0,
        traces: Sequence[str] = (),
    ) -> None:
        """`traces` are the task's traces for the database sampler."""
        self.task = task
        self._rejected: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        """Number of rows of decisions outside the limits of a GPU by cause; complete after the last round."""
        self._testbed = testbed
        self._samplers = samplers
        self._config = config
        self._device = device
        self._traces = traces

    @property
    def rejected(self) -> Counter[str]:
        """Number of rejected candidates by cause; complete after the last round."""
        names = {PYTHON_POSTPROCESSOR: python_cause(self._testbed.target)}
        return Counter({names.get(cause, cause): count for cause, count in self._rejected.items()})

    def rounds(self, earlier: Sequence[Record], deadline: float = math.inf) -> Iterator[list[Record]]:
        """Yield the records of each round until there are enough or the time is up; at least one round.

        `earlier` are the task's records from a previous run: they are not measured again, and the sampler
        learns from them first. `deadline` is a time of `time.monotonic`. Raises NoDesignSpaceError, the
        errors of `samplers`, and BatchEndedError after the records of a batch that ended early.
        """
        sampling = self._samplers.open(self._request(earlier))
        try:
            total, valid = len(earlier), sum(record.failure is None for record in earlier)
            outcomes: list[MeasureOutcome] = []
            best_s = min((record.latency_s for record in earlier), default=math.inf)
            deadline = min(deadline, time.monotonic() + self._config.task_budget_s)
            for number in itertools.count(max((record.round for record in earlier), default=-1) + 1):
                drawn = sampling.next_round([outcome_values(outcome) for outcome in outcomes])
                self._rejected, self.dropped = Counter(drawn.rejected), Counter(drawn.dropped)
                if not drawn.proposed:
                    return  # the space is exhausted
                modules = [module for _, module in drawn.proposed]
                traces = [trace for trace, _ in drawn.proposed]
                try:
                    measured = self._testbed.measure(self._jobs(modules, best_s, total), self._device)
                except BatchEndedError as ended:
                    yield self._records(traces, ended.outcomes, number)
                    raise
                yield self._records(traces, measured, number)
                outcomes = [measurement.outcome for measurement in measured]
                total += len(outcomes)
                valid += sum(outcome.failure is None for outcome in outcomes)
                if self._config.is_enough(total, valid) or time.monotonic() > deadline:
                    return
                best_s = min(best_s, best_latency_s(outcomes))
        finally:
            sampling.close()

    def _request(self, earlier: Sequence[Record]) -> SamplingRequest:
        config = self._config
        return SamplingRequest(
            vars(task_row(self.task)),
            per_round=min(config.per_round, config.records_per_task),
            seed=config.seed,
            traces=self._traces,
            earlier=[measured_values(record) for record in earlier],
            hardware=self._testbed.hardware.to_json(),
        )

    def _jobs(self, modules: Sequence[str], best_s: float, total: int) -> list[MeasureJob]:
        share = self._config.check_outputs
        return [
            MeasureJob(
                module,
                best_s,
                reference=tvm.ir.save_json(self.task.mod) if _is_checked(number, share) else None,
                device=self._device,
                task=self.task.workload_hash,
                count_bytes=True,
            )
            for number, module in enumerate(modules, total)
        ]

    def _records(
        self, traces: Sequence[str], measured: Sequence[ProbedOutcome | None], number: int
    ) -> list[Record]:
        """Records of the measurements in a round."""
        return [
            self._record(trace, measurement, number)
            for trace, measurement in zip(traces, measured, strict=True)
            if measurement is not None
        ]

    def _record(self, trace: str, measurement: ProbedOutcome, number: int) -> Record:
        outcome = measurement.outcome
        return Record(
            workload_hash=self.task.workload_hash,
            trace=trace,
            run_secs=outcome.run_secs,
            failure=outcome.failure,
            failure_message=outcome.message,
            cut_short=outcome.cut_short,
            sampler=self._config.program_sampling.label,
            round=number,
            seed=self._config.seed,
            hardware_id=self._testbed.hardware.hardware_id,
            target=target_to_json(self._testbed.target),
            tvm_version=tvm.__version__,
            timestamp=time.time(),
            build_s=outcome.build_s,
            run_s=outcome.run_s,
            disturbed=measurement.disturbed,
            simulated=outcome.simulated,
            probe_ratio=measurement.probe_ratio,
            moved_bytes=outcome.moved_bytes,
        )


def _is_checked(number: int, share: float) -> bool:
    """Whether outputs of the task's candidate `number` are compared: evenly spread, including the first."""
    return math.ceil((number + 1) * share) > math.ceil(number * share)
