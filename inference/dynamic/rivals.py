"""Rivals of a network of dynamic shapes, timed with its library at a few sizes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from ...compiler.networks import Network
from ...compiler.networks.dynamic.dynamic_inputs import DynamicInputs, sizes_text
from ...compiler.networks.inputs import example_inputs
from ...dataset.measure.worker.scratch import ScratchFolder
from ...wording import MISSING, milliseconds
from ..deploy.compile import CompiledNetwork
from ..deploy.rivals.registry import LIBRARY
from ..run.config import TuneConfig
from ..run.result import TUNED
from .comparison import EngineStart, Entrant, SizesComparison, SizeTiming, rivals_named
from .settings import asked_rivals
from .sizes import sizes_to_time


@dataclass(frozen=True)
class RivalTimings:
    """Engines that ran the network, and their latencies."""

    engines: tuple[EngineStart, ...] = ()
    timings: tuple[SizeTiming, ...] = ()

    def table(self) -> Table:
        """A row for each size, a column for each engine."""
        table = Table(title="latency in turns with other engines")
        table.add_column("size")
        names = [one.name for one in self.engines]
        for name in names:
            table.add_column(name, justify="right")
        for size in dict.fromkeys(sizes_text(one.sizes) for one in self.timings):
            cells = {one.name: _cell(one) for one in self.timings if sizes_text(one.sizes) == size}
            table.add_row(size, *(cells.get(name, MISSING) for name in names))
        return table

    def remarks(self) -> list[str]:
        """A sentence for each engine that failed, or runs in another data type than the library."""
        found = [f"{one.name} is left out: {one.error}" for one in self.engines if one.error]
        own = next((one.dtype for one in self.engines if one.name == TUNED), "")
        return found + [
            f"{one.name} runs in {one.dtype}" for one in self.engines if not one.error and one.dtype != own
        ]


def time_rivals(
    config: TuneConfig, network: Network, dynamic: DynamicInputs, compiled: CompiledNetwork, ready_s: float
) -> RivalTimings:
    """Times the library and the rivals that were asked for at a few sizes.

    `ready_s` are the seconds that the library took so far. Raises NetworkBuildError if it cannot be linked.
    """
    scratch = ScratchFolder()
    try:
        library = config.export
        if library is None:
            compiled.lend(library := scratch.path / "network.so")
        own = Entrant(TUNED, LIBRARY, Path(library), before_s=ready_s)
        names = ("network", "inputs", "batch", "dims")
        arguments = {
            "name_or_path": config.network,
            "inputs": dynamic.at(dynamic.traced),
            "seed": config.seed,
            "kwargs": config.kwargs,
        }
        with SizesComparison(
            network,
            arguments,
            {name: getattr(config, name) for name in names},
            dynamic,
            lambda sizes: example_inputs(dynamic.at(sizes), config.seed),
            [own, *rivals_named(asked_rivals(config), network.onnx_path)],
            limit_s=config.rival_limit_s,
            dtype=config.lowering.dtype,
        ) as comparison:
            comparison.start()
            timings = [
                timing
                for sizes in sizes_to_time(dynamic.symbols)
                for timing in comparison.at(sizes, repeats=config.timing_repeats)
            ]
            return RivalTimings(tuple(comparison.starts.values()), tuple(timings))
    finally:
        scratch.cleanup()


def _cell(one: SizeTiming) -> str:
    if one.error:
        return "failed"
    return f"{milliseconds(one.latency_s)}{' (disturbed)' if one.disturbed else ''}"
