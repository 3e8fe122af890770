"""Kernels of a dynamic network before it is tuned, or of an exported library."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from tvm.target import Target

from ...compiler.dynamic.symbols import DynamicShapeError
from ...compiler.networks import Lowering, Network
from ...compiler.networks.dynamic.dynamic_inputs import DynamicInputs
from ...compiler.networks.dynamic.lowering import scheduled, to_symbolic_relax
from ...compiler.targets import is_cpu
from ...files import write_whole
from ...terminal import print_table, say
from ...wording import counted
from ..deploy.load import load
from .families import Task, families_table

LIBRARY = ".so"
"""End of the name of an exported library."""


@dataclass(frozen=True)
class DynamicOutlook:
    """Symbols and kernels of a network."""

    network: str
    target: str
    symbols: Mapping[str, tuple[int, int]]
    """Smallest and largest value of each symbol."""
    tasks: Sequence[Task]
    """Description of each task with symbolic extents."""
    beyond: bool = False
    """Whether a library runs sizes outside of the ranges, too."""
    inputs: Sequence[str] = ()
    """Name, data type and shape of each input of a library."""
    outputs: Sequence[str] = ()

    def write(self, path: Path) -> None:
        """Writes the outlook as JSON."""
        write_whole(path, json.dumps(asdict(self), indent=1) + "\n", field="output")

    def print(self, console: Console) -> None:
        """Prints the kernels of the families, then sentences."""
        table = families_table(self.tasks)
        print_table(table, console, explained=True)
        ranges = ", ".join(f"{name}={low}:{high}" for name, (low, high) in self.symbols.items())
        for name, specs in (("input", self.inputs), ("output", self.outputs)):
            for spec in specs:
                say(console, f"{name} {spec}")
        tasks = f"{counted(len(self.tasks), 'task')} of symbolic extents"
        say(console, f"{self.network} with {ranges}: {tasks}")
        if self.beyond:
            say(console, "other sizes run plain schedules, which are slow")


def library_outlook(path: Path) -> DynamicOutlook:
    """The outlook of an exported library, which is loaded.

    Raises LoadError, and DynamicShapeError for a network of fixed shapes.
    """
    library = load(path, threads=1)
    if not library.symbols:
        raise DynamicShapeError(
            f"network={path}: a library of fixed shapes, whose schedules are in the database of its run; "
            "give the network that it was made of"
        )
    return DynamicOutlook(
        network=str(path),
        target=library.target,
        symbols={one.name: (one.low, one.high) for one in library.symbols},
        tasks=library.families,
        beyond=library.beyond,
        inputs=[str(one) for one in library.inputs],
        outputs=[str(one) for one in library.outputs],
    )


def network_outlook(
    network: Network, dynamic: DynamicInputs, target: Target, lowering: Lowering
) -> DynamicOutlook:
    """The outlook of a network: the kernels that a run would choose by its predictions.

    Raises DynamicShapeError, NetworkExportError.
    """
    require_cpu(target)
    fused = to_symbolic_relax(network, dynamic, target, lowering)
    _, tasks = scheduled(fused, dynamic, target, lowering=lowering)
    found: list[Mapping[str, Any]] = list(tasks)
    return DynamicOutlook(network.name, str(target), dynamic.ranges, found)


def require_cpu(target: Target) -> None:
    """Raises DynamicShapeError for another device."""
    if not is_cpu(target):
        raise DynamicShapeError(
            f"target={target.kind.name}: dynamic shapes need a CPU; use target=llvm, or fixed shapes"
        )
