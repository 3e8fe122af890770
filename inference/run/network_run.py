"""Tuning of one network: search for its tasks, compilation, check and timing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from tvm.target import Target

from ...compiler.networks import LoweredNetwork, Network, keeps_layout, load_network, recast_operators
from ...compiler.networks.low_precision.integer_products import float_products
from ...compiler.networks.low_precision.quantisation import is_quantised, quantised
from ...compiler.networks.size import activation_bytes, weight_bytes
from ...compiler.types import INT8, WIDE
from ...errors import UserError
from ...terminal import say
from ..anytime.library import AnytimeLibrary, Subject, open_tasks
from ..deploy.comparison import Comparison, comparison_of
from ..deploy.original import Original
from ..deploy.trial import Trial, Tuned
from ..search.alternatives import take
from ..search.tuner import NetworkTuner
from .config import TuneConfig
from .conversion import lowered_for, original_of
from .memory import check_memory
from .opened import Opened
from .reporting import reported, untuned_timed
from .result import TUNED, TaskResult, TuneResult
from .result_file import load_comparison_runs
from .tuning_run import TuningRun
from .untuned_tasks import with_untuned


class OutputMismatchError(UserError, RuntimeError):
    """The outputs of the tuned network differ from the original's."""


class NetworkRun(TuningRun):
    """Run of one network."""

    def _run(self) -> TuneResult:
        """Tunes, compiles, checks and times the network, and writes the report. Raises UserError."""
        config = self.config
        comparison_runs = load_comparison_runs(config.report.beside)
        with ExitStack() as contestants, ExitStack() as stack:
            opened = stack.enter_context(self.opened())
            trial = Trial(config, self.console, self.watch, self.elapsed_s, self.predicted, self.objects)
            with (
                self.watch.stage("network to tasks"),
                self.console.status(f"turning {config.network} into tasks"),
            ):
                network, original, trial.comparison = self._checked(opened, contestants)
                lowered = self._lowered(network, original, opened.target)
            joined = self.joined_calls(lowered.relax_mod, opened.target)
            templates = self.gpu_templates(lowered.tasks, opened, joined)
            if config.anytime:
                self.anytime = AnytimeLibrary(trial, Subject(network, original, lowered, opened), self.left_s)
            with trial.keeping_library():
                tuner, found = self.tune(lowered.tasks, opened, lowered.offers)
            self._end_search(tuner, opened, stack, lowered)
            if self.anytime is not None:
                found = self.anytime.filled(found)
            taken = take(lowered.relax_mod, lowered.alternatives, found, config.search.measure)
            tuned_mod, results = templates.placed(taken.relax_mod, taken.results)
            plain = () if self.anytime is None else open_tasks(results)
            timed = trial.timed(
                Tuned(tuned_mod, lowered, network, opened.target, opened.database, results, original, plain),
                lambda: self._complete(tuner, stack, lowered, found, results, taken.replaces),
            )
        results = [_as_built(task, timed.unscheduled) for task in timed.results]
        check = timed.check
        result = replace(
            self.result(network.name, opened, results, tuner),
            contestants=timed.contestants,
            max_abs_difference=None if check is None else check.max_abs_difference,
            tolerance=0.0 if check is None else check.tolerance,
            compared_on=[] if check is None else original.compared_on,
            unchecked=original.unchecked(),
            comparison_runs=comparison_runs,
            exported=timed.exported,
            left_out=timed.left_out,
            network_profile=timed.profile,
            recast=recast_operators(lowered.relax_mod),
            layout_kept=keeps_layout(lowered.relax_mod),
            alternatives=taken.alternatives,
            float_products=float_products(lowered.relax_mod),
            agreement=timed.agreement,
            peak_gflops=timed.peak_gflops,
            estimated_peak_mb=self._need.bytes / 1e6,
            library_s=timed.library_s,
            libraries=trial.written,
        )
        result = reported(self, result, opened)
        if check is not None and not check.agrees:
            remedy = _remedy(config, any(one.taken for one in taken.alternatives))
            kept = f"{config.export} has the library before it" if trial.written else "no library was written"
            raise OutputMismatchError(
                f"network={config.network}: after tuning, {original.describe(check)}; {kept}: {remedy}"
            )
        return result

    def _end_search(
        self, tuner: NetworkTuner, opened: Opened, stack: ExitStack, lowered: LoweredNetwork
    ) -> None:
        """Ends the processes that are not needed any more. Raises the errors of the network's check."""
        lowered.wait_for_check()
        if tuner.leaves_untuned:
            opened.workforce.end_search()
        else:
            stack.close()

    def _complete(
        self,
        tuner: NetworkTuner,
        stack: ExitStack,
        lowered: LoweredNetwork,
        found: Sequence[TaskResult],
        results: list[TaskResult],
        replaces: Mapping[str, Sequence[str]],
    ) -> list[TaskResult]:
        """The network's results with the latencies that its library did not wait for; ends all processes.

        It also keeps the conversion in the cache, which the library did not wait for either. `found` are the
        results of the search. For `replaces`, see `with_untuned`.
        """
        late_s = untuned_timed(self, tuner)
        stack.close()
        with self.watch.stage("keep for later runs"):
            lowered.keep()
        early_s = {task.workload_hash: task.untuned_latency_s for task in found}
        return with_untuned(results, {**early_s, **late_s}, replaces) if late_s else results

    def _checked(self, opened: Opened, stack: ExitStack) -> tuple[Network, Original, Comparison | None]:
        """The network, the original that its outputs are compared with, and a comparison that has begun.

        The comparison is None if a search is expected. Otherwise the process that will load the library has
        started, as its imports take longer than the rest; `stack` ends it. Raises MemoryLimitError if there
        is no room for the run.
        """
        config, network = self.config, self._loaded()
        check_memory(config, network.name, weight_bytes(network))
        original = original_of(network, config, self.work)
        comparison: Comparison | None = None
        # The original is through with its runs on all cores.
        if config.executor.kind == "local" and self._expects_nothing(opened.database):
            comparison = stack.enter_context(comparison_of(config, network, opened.target))
            comparison.start([TUNED])
        return network, original, comparison

    def _lowered(self, network: Network, original: Original, target: Target) -> LoweredNetwork:
        """The lowered network. Raises MemoryLimitError if there is no room for the run."""
        config = self.config
        # The dry run of a set's network was before the search.
        original_or_none = original if self.searches else None
        # A search that measures nothing is short, and a check beside it disturbs no measurement.
        waits = config.search.measure or config.search.processes == 0
        lowered = lowered_for(network, target, config, self.work, original_or_none, waits=waits)
        size = weight_bytes(network), activation_bytes(lowered.relax_mod)
        self._need = check_memory(config, network.name, *size)
        return lowered

    def _loaded(self) -> Network:
        """Loads the network, with its quantised form next to the report for int8."""
        config = self.config
        network = load_network(**config.network_arguments)
        if config.lowering.dtype == INT8:
            path = config.folder / "quantised.onnx"
            with self.work.stage("quantisation"):
                network = quantised(network, config.lowering.calibration, path)
            if network.quantised_s:
                by = config.lowering.calibration or "random inputs, for lack of lowering.calibration="
                say(self.console, f"wrote {path}, quantised by {by}")
        elif is_quantised(network):
            self.console.print(
                f"network={network.name} is quantised, and runs in {config.lowering.dtype} all the same: its "
                f"products run in integers with lowering.dtype={INT8}",
                style="yellow",
                soft_wrap=True,
            )
        return network


def _as_built(task: TaskResult, unscheduled: Mapping[str, str]) -> TaskResult:
    """The task's result, without its schedule if the network runs without it."""
    if task.name not in unscheduled:
        return task
    return replace(task, tuned_latency_s=None, predicted=False, reason=unscheduled[task.name])


def _remedy(config: TuneConfig, alternatives: bool) -> str:
    """Next step if outputs differ although the conversion is right and no single schedule is wrong."""
    if config.lowering.dtype != WIDE:
        return f"{config.lowering.dtype} is too coarse for this network; use lowering.dtype={WIDE}"
    if alternatives:
        return (
            "use lowering.winograd=off lowering.fusion=off lowering.attention=off, without other algorithms"
        )
    return "its schedules are wrong; give an empty folder as database="
