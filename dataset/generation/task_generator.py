"""Generation of one task's records: rounds of proposing, measuring and learning."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import tvm

from ..measurable_space import PYTHON_POSTPROCESSOR, python_cause
from ..measure import MeasureJob, MeasureOutcome
from ..program_sampling import ProgramSampler, Proposal, best_latency_s, make_program_sampler
from ..records import Record
from ..replay import candidate_module_json, replay
from ..task import Task
from ..tvm_compat import target_to_json
from .config import GenerateConfig
from .testbed import Measurement, Testbed

# A round may propose only measured candidates; after this many such rounds the space counts as exhausted.
_EMPTY_ROUNDS = 3


class TaskGenerator:
    """Generator of the records of one task on one device."""

    def __init__(
        self,
        task: Task,
        testbed: Testbed,
        config: GenerateConfig,
        *,
        device: int = 0,
        traces: Sequence[str] = (),
    ) -> None:
        """`traces` are the task's traces for the database sampler."""
        self.task = task
        self._rejected: Counter[str] = Counter()
        self._testbed = testbed
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
        learns from them first. `deadline` is a time of `time.monotonic`. Raises NoDesignSpaceError.
        """
        config, clock = self._config, self._testbed.clock
        total = len(earlier)
        with clock.stage("sampling"):
            sampler = self._sampler(earlier)
        self._rejected = sampler.rejected
        best_s = min((record.latency_s for record in earlier), default=math.inf)
        deadline = min(deadline, time.monotonic() + config.task_budget_s)
        for number in itertools.count(max((record.round for record in earlier), default=-1) + 1):
            with clock.stage("sampling"):
                proposed = next(filter(None, (sampler.propose() for _ in range(_EMPTY_ROUNDS))), None)
                if proposed is None:
                    return  # the space is exhausted
                jobs = self._jobs(proposed, best_s, total)
            measured = self._testbed.measure(jobs, self._device)
            yield [
                self._record(trace, measurement, number)
                for (trace, _), measurement in zip(proposed, measured, strict=True)
            ]
            total += len(proposed)
            if total >= config.records_per_task or time.monotonic() > deadline:
                return
            outcomes = [measurement.outcome for measurement in measured]
            best_s = min(best_s, best_latency_s(outcomes))
            with clock.stage("sampling"):
                sampler.learn(proposed, outcomes)

    def _sampler(self, earlier: Sequence[Record]) -> ProgramSampler:
        """Sampler of the task after learning from earlier records."""
        config = self._config
        sampler = make_program_sampler(
            config.program_sampling,
            self.task,
            self._testbed.target,
            per_round=min(config.per_round, config.records_per_task),
            seed=config.seed + len(earlier),
            traces=self._traces,
            hardware=self._testbed.hardware,
        )
        sampler.mark_measured(record.trace for record in earlier)
        if config.program_sampling.uses_scorer:
            replayed = [(record, replay(sampler.context, record.trace)) for record in earlier]
            fitting = [(record, candidate) for record, candidate in replayed if candidate is not None]
            sampler.learn(
                [(record.trace, candidate) for record, candidate in fitting],
                [
                    MeasureOutcome(record.run_secs, record.failure, record.failure_message)
                    for record, _ in fitting
                ],
            )
        return sampler

    def _jobs(self, proposed: Sequence[Proposal], best_s: float, total: int) -> list[MeasureJob]:
        share = self._config.check_outputs
        return [
            MeasureJob(
                candidate_module_json(candidate),
                best_s,
                reference=tvm.ir.save_json(self.task.mod) if _is_checked(number, share) else None,
                device=self._device,
                task=self.task.workload_hash,
                count_bytes=True,
            )
            for number, (_, candidate) in enumerate(proposed, total)
        ]

    def _record(self, trace: str, measurement: Measurement, number: int) -> Record:
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
