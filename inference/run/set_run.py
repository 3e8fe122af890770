"""Tuning of a set of networks: one operator set, one database, one joint report (ETO section 7.2)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tvm.target import Target

from ...compiler.networks import LoweredNetwork, load_network
from ...compiler.networks.alternatives.alternatives import Offer, merged_offers
from ...compiler.networks.loading import kind_and_line
from ...compiler.networks.low_precision.quantisation import quantised
from ...compiler.networks.size import weight_bytes
from ...compiler.task import Task
from ...compiler.types import INT8
from ...errors import UserError
from ...terminal import say
from ...wording import part_of
from .conversion import lowered_for, original_of
from .gpu_templates import Due
from .memory import check_memory
from .network_run import NetworkRun
from .network_set import Member, NetworkSetError, operator_set
from .reporting import reported, untuned_timed
from .result import TUNED, NetworkOutcome, TuneResult
from .tuning_run import TuningRun
from .untuned_tasks import with_untuned


class SetRun(TuningRun):
    """Run of several networks, whose tasks are searched together.

    After the search, each network is loaded again, compiled, checked and timed separately, because two
    networks may not fit into memory at once. Each gets a report in a folder of its name.
    """

    def _run(self) -> TuneResult:
        """Tunes the set and writes the reports; failed networks do not stop the others and are named last."""
        config = self.config
        with self.opened() as opened:
            joined: dict[str, Due] = {}
            tasks, offers, outcomes = self._tasks(config.members, opened.target, joined)
            united = operator_set(tasks)
            self.gpu_templates(united, opened, joined)
            tuner, results = self.tune(united, opened, merged_offers(offers))
            # The reports of the networks read these latencies from the database.
            results = with_untuned(results, untuned_timed(self, tuner), {})
        for member in config.members:
            if not outcomes[member.name].error:
                outcomes[member.name] = self._tried(member, outcomes[member.name])
        found = list(outcomes.values())
        whole = self.result(", ".join(outcomes), opened, results, tuner)
        result = reported(self, replace(whole, networks=found), opened)
        if failed := [outcome for outcome in found if outcome.error]:
            raise NetworkSetError(_failed(failed, len(found)))
        return result

    def _tasks(
        self, members: Sequence[Member], target: Target, joined: dict[str, Due]
    ) -> tuple[dict[str, list[Task]], list[list[Offer]], dict[str, NetworkOutcome]]:
        """Tasks of each network that has some, alternatives to them, and an outcome for every network.

        Adds their `joined_calls` to `joined`. Raises NetworkSetError if all networks fail.
        """
        tasks: dict[str, list[Task]] = {}
        offers: list[list[Offer]] = []
        outcomes: dict[str, NetworkOutcome] = {}
        for member in members:
            with (
                self.watch.stage("network to tasks"),
                self.console.status(f"turning {member.name} into tasks"),
            ):
                try:
                    lowered = self._lowered(member, target)
                    joined |= self.joined_calls(lowered.relax_mod, target)
                    offers.append(lowered.offers)
                    tasks[member.name] = lowered.tasks
                    outcomes[member.name] = NetworkOutcome(member.name, len(lowered.tasks))
                except Exception as error:  # one network must not take the others along
                    outcomes[member.name] = NetworkOutcome(member.name, 0, error=_message(error))
                    self._tell(outcomes[member.name])
        if not tasks:
            raise NetworkSetError(_failed(list(outcomes.values()), len(members)))
        return tasks, offers, outcomes

    def _lowered(self, member: Member, target: Target) -> LoweredNetwork:
        """The lowered network, after a dry run."""
        config = self.config
        network = load_network(**member.arguments(config.seed, config.kwargs))
        check_memory(config, member.name, weight_bytes(network))
        with TemporaryDirectory() as folder:
            if config.lowering.dtype == INT8:
                network = quantised(network, config.lowering.calibration, Path(folder) / "quantised.onnx")
            original = original_of(network, config, self.work)
            lowered = lowered_for(network, target, config, self.work, original)
            lowered.keep()  # for `_tried`
            return lowered

    def _tried(self, member: Member, outcome: NetworkOutcome) -> NetworkOutcome:
        self.console.rule(member.name)
        run = NetworkRun(self.config.of_member(member), self.console, time.time(), searches=False)
        run.objects = self.objects
        with self.watch.stage("compile, check and time the networks"):
            try:
                result = run.run()
            except Exception as error:  # as above
                outcome = replace(outcome, error=_message(error))
                self._tell(outcome)
                return outcome
        rival = result.best_rival()
        return replace(
            outcome,
            median_s=result.median_s(TUNED),
            rival="" if rival is None else rival.name,
            rival_s=None if rival is None else rival.median_s,
            outputs_match=result.outputs_match,
        )

    def _tell(self, outcome: NetworkOutcome) -> None:
        say(self.console, f"{outcome.name}: {outcome.error}", "red")


def _message(error: Exception) -> str:
    return str(error) if isinstance(error, UserError) else kind_and_line(error)


def _failed(failed: Sequence[NetworkOutcome], of: int) -> str:
    reasons = "; ".join(f"{outcome.name}: {outcome.error}" for outcome in failed)
    return f"{part_of(len(failed), of, 'network')} failed: {reasons}"
