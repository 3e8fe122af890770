"""Generation of one task's records: rounds of proposing, measuring and learning."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import tvm

from ...compiler.spaces.measurable_space import PYTHON_POSTPROCESSOR, python_cause
from ...compiler.task import Task
from ...compiler.tvm_compat import target_to_json
from ..measure import MeasureJob, MeasureOutcome
from ..measure.machine_errors import BatchEndedError
from ..records.schema import Record
from ..records.stored_tasks import task_row
from ..sampling.programs import best_latency_s
from .config import GenerateConfig
from .samplers import Samplers
from .sampling import SamplingRequest, measured_values, outcome_values
from .testbed import ProbedOutcome, Testbed


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
            total = len(earlier)
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
                total += len(measured)
                if total >= self._config.records_per_task or time.monotonic() > deadline:
                    return
                outcomes = [measurement.outcome for measurement in measured]
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
