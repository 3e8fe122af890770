"""One run of the advice: it builds layers differently, determines their latencies and compares them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.progress import Progress
from tvm.target import Target

from ....compiler.targets import is_cpu
from ....compiler.task import Task
from ....compiler.tvm_compat import target_to_json
from ....dataset.hardware import Hardware
from ....dataset.measure.job import content_key
from ....errors import UserError
from ....wording import counted
from ...reuse.parent import ReuseParent
from ...spaces.stock import StockSpace
from .activations import NONE
from .alignment import Aligned, aligned, alignment
from .content import Advice, LayerCosts, activation_advice, alignment_advice, deepening_advice, layer_costs
from .cost_file import KeptCosts
from .deepening import deepened
from .exchange import Exchange, activation_costs
from .latencies import TURNS, Latency, LatencySource
from .layers import Layer, Variant


class NoLatencyError(UserError, RuntimeError):
    """The network has no task with a known latency."""


@dataclass(frozen=True)
class Asked:
    """Settings that define the subject of an advice."""

    activations: tuple[str, ...]
    """Activations that replace the layers' own ones."""
    align: int | None
    """Width unit in values, and widths should be multiples of it; None lets the device decide."""
    nearly_free: float
    """Share of the network's latency up to which a 1x1 convolution counts as nearly free."""
    programs: int
    """Number of programs of a layer in which its activations are compared."""
    max_code: int | None
    """Limit of the design space; see `StockSpace`."""


class AdviceRun:
    """One run of the advice; its parts share the source of latencies."""

    def __init__(
        self,
        asked: Asked,
        target: Target,
        hardware: Hardware,
        source: LatencySource,
        progress: Progress,
        kept: Path,
    ) -> None:
        """`kept` is the file of activation costs, from which a restarted run continues."""
        self._asked = asked
        self._target = target
        self._hardware = hardware
        self._source = source
        self._progress = progress
        self._kept = kept
        self._disturbed = False

    def advice(self, network: str, tasks: Sequence[Task], layers: Sequence[Layer]) -> Advice:
        """Advice on a network with these tasks; `layers` are some of them."""
        unit = self._asked.align or alignment(self._target, self._hardware, _dtype(layers))
        widened = self._widened(layers, unit)
        added = _added(layers)
        own = self._latencies("network", [*tasks, *(layer.task for layer in layers)], {})
        parents = {task.workload_hash: self._parents(layer) for layer, _, task in widened}
        others = [*(task for *_, task in widened), *(task for *_, task in added)]
        known = own | self._latencies("other layers", others, parents)
        known_tasks = [task for task in tasks if task.workload_hash in own]
        network_s = sum(task.weight * own[task.workload_hash].seconds for task in known_tasks)
        if not network_s:
            raise NoLatencyError(
                f"network={network}: no program of its {counted(len(tasks), 'task')} ran or was found; try "
                "foretune tune, which tells why"
            )
        costs = self._activation_costs([layer for layer in layers if layer.variant.activation != NONE])
        return Advice(
            network=network,
            target=str(self._target),
            hardware=self._hardware.name,
            measured=self._source.measured,
            checkpoint=self._source.checkpoint,
            network_s=network_s,
            tasks=len(tasks),
            unknown=[task.name for task in tasks if task.workload_hash not in own],
            layers=len(layers),
            sources=dict(Counter(own[task.workload_hash].source for task in known_tasks)),
            alignment=unit,
            nearly_free=self._asked.nearly_free,
            activations=activation_advice(self._asked.activations, costs, network_s),
            layer_costs=costs,
            aligned=alignment_advice(widened, known, network_s),
            deeper=deepening_advice(added, known, network_s),
            disturbed=self._disturbed or self._source.disturbed,
        )

    def _widened(self, layers: Sequence[Layer], unit: int) -> list[tuple[Layer, Aligned, Task]]:
        """Misaligned layers with aligned widths; a GPU also loads the network's input in whole accesses."""
        data_too = not is_cpu(self._target)
        pairs = [(layer, one) for layer in layers for one in aligned(layer, unit, data_too)]
        return [(layer, one, layer.changed(one.variant)) for layer, one in pairs]

    def _latencies(
        self, what: str, tasks: Sequence[Task], parents: Mapping[str, Sequence[ReuseParent]]
    ) -> dict[str, Latency]:
        """Latencies of the distinct tasks, with a progress bar."""
        distinct = list({task.workload_hash: task for task in tasks}.values())
        bar = self._progress.add_task(what, total=len(distinct))
        found = self._source.best(
            distinct,
            parents,
            lambda name, done: self._progress.update(
                bar, description=f"{what}: {name}", completed=int(done * len(distinct))
            ),
        )
        self._progress.update(bar, description=what, completed=len(distinct))
        return found

    def _parents(self, layer: Layer) -> list[ReuseParent]:
        """Programs of a layer from which the search of its aligned form starts."""
        return [
            ReuseParent(layer.task, trace) for trace in self._source.fastest(layer.task, self._asked.programs)
        ]

    def _activation_costs(self, layers: Sequence[Layer]) -> list[LayerCosts]:
        """Costs of activations in the layers that have one; each is stored when it is known."""
        space = StockSpace(self._asked.max_code)
        exchange = Exchange(self._target, self._hardware, space)
        # Predictions are cheap. They depend on a device's figures, which differ from run to run.
        kept = KeptCosts(self._kept if self._source.measured else None, self._conditions())
        bar = self._progress.add_task("activations", total=len(layers))
        found = []
        for layer in layers:
            names = [*dict.fromkeys([layer.variant.activation, *self._asked.activations])]
            traces = self._source.fastest(layer.task, self._asked.programs)
            known_by = content_key("\n".join([layer.task.workload_hash, *traces]))
            costs = kept.costs(known_by, names)
            if costs is None and traces:
                costs = activation_costs(layer, names, traces, exchange, self._source)
                kept.keep(known_by, names, costs, self._source.just_disturbed)
            self._disturbed |= kept.is_disturbed(known_by)
            found.append(layer_costs(layer, costs or {}))
            self._progress.update(bar, description=f"activations: {layer.of_network.name}", advance=1)
        self._progress.update(bar, description="activations")
        return [one for one in found if one is not None]

    def _conditions(self) -> dict[str, object]:
        """Target, device and turns. The costs of activations depend on them and on the programs."""
        device = {"target": target_to_json(self._target), "hardware": self._hardware.hardware_id}
        return {**device, "turns": TURNS}


def _added(layers: Sequence[Layer]) -> list[tuple[Layer, Variant, Task]]:
    """2-D convolutions with the 1x1 convolution that may follow each of them."""
    pairs = [(layer, deepened(layer)) for layer in layers]
    return [(layer, one, layer.changed(one)) for layer, one in pairs if one is not None]


def _dtype(layers: Sequence[Layer]) -> str:
    """Data type of the network's layers, read from the first layer."""
    return layers[0].variant.settings.dtype
