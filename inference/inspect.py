"""`foretune inspect`: tasks of a network, their state in the database, and the expected tuning time.

The command searches and measures nothing. It writes only on request.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from rich.console import Console
from tvm.target import Target

from ..compiler.networks import AS_FASTEST, Lowering, load_network, lowered_network
from ..compiler.networks.alternatives.alternatives import Offer, merged_offers, offered_tasks
from ..compiler.networks.dynamic.dynamic_inputs import is_dynamic
from ..compiler.networks.loading import check_name
from ..compiler.targets import is_cpu
from ..compiler.task import Task
from ..compiler.tvm_compat import parse_target
from ..configuration import from_hydra
from ..dataset.hardware import Hardware
from ..dataset.hardware.target_hardware import target_hardware
from ..dataset.records.exchange import HERE, find_hardware
from ..errors import UserError
from ..files import check_writable, write_whole
from ..models.checkpoints.checkpoint import Checkpoint
from ..models.checkpoints.shipped import AUTO
from ..terminal import CommandConsole, say
from .database.folder import read_device
from .dynamic.loading import load_dynamic
from .dynamic.outlook import LIBRARY, DynamicOutlook, library_outlook, network_outlook
from .inspection.content import NetworkOutlook, database_folder, snapshot, task_outlooks
from .inspection.estimate import estimate
from .inspection.predicted import LatencyPredictor, latency_checkpoint
from .inspection.terminal import print_outlook
from .run.network_set import Member, members_of, operator_set
from .search.config import OneShotConfig


class InspectConfigError(UserError, ValueError):
    """A setting of the inspection is out of range."""


@dataclass(frozen=True)
class InspectConfig:
    """Settings of one inspection; the fields are those in conf/inspect.yaml."""

    network: Any
    database: Path
    checkpoint: str | None = AUTO
    target: Any = "llvm"
    hardware: str = HERE
    inputs: Any = None
    kwargs: dict[str, Any] | None = None
    batch: Any = 1
    dims: dict[str, Any] | None = None
    seed: int = 0
    programs: int = 8
    output: Path | None = None
    lowering: Lowering = AS_FASTEST
    search: OneShotConfig = field(default_factory=OneShotConfig)

    def __post_init__(self) -> None:
        _ = self.members
        object.__setattr__(self, "lowering", self.search.applied_to(self.lowering))
        if self.programs < 1:
            raise InspectConfigError(
                f"programs={self.programs}: must be at least 1; checkpoint=null draws none"
            )

    @property
    def members(self) -> list[Member]:
        """Networks to inspect."""
        return members_of(self.network, 1 if isinstance(self.batch, str) else self.batch, self.inputs)

    @property
    def is_library(self) -> bool:
        """Whether the network is an exported library."""
        return isinstance(self.network, str) and self.network.endswith(LIBRARY)

    @property
    def is_dynamic(self) -> bool:
        """Whether extents of the inputs are symbols, or the network is a library."""
        return self.is_library or is_dynamic(self.inputs, self.batch, self.dims)


def run(config: InspectConfig, console: Console | None = None) -> NetworkOutlook:
    """Reads a network of fixed shapes and its database, prints the outlook and returns it.

    Raises UserError.
    """
    console = console or CommandConsole()
    if config.output is not None:
        check_writable(config.output, "output")
    target = parse_target(config.target)
    checkpoint = latency_checkpoint(config.checkpoint, target)
    device = _device(config, target, measured=False)
    of_networks: dict[str, list[Task]] = {}
    offers: list[list[Offer]] = []
    for member in config.members:
        with console.status(f"turning {member.name} into tasks"):
            network = load_network(**member.arguments(config.seed, config.kwargs))
            lowered = lowered_network(network, target, config.lowering)
            of_networks[member.name] = lowered.tasks
            offers.append(lowered.offers)
    offered = merged_offers(offers)
    tasks = operator_set(of_networks)
    tasks += offered_tasks(tasks, offered)
    predicted_s: list[float | None] = [None] * len(tasks)
    if checkpoint is not None:
        with console.status("predicting latencies"):
            predictor = _predictor(config, checkpoint, target, device)
            predicted_s = [predictor.best_s(task) for task in tasks]
    folder = database_folder(config.database, target, device)
    with snapshot(config.database, target, device) as database:
        outlooks = task_outlooks(tasks, config.search, database, predicted_s, offered)
        due = sum(task.due for task in outlooks)
        runs = database.notes.runs(config.search.fitted(target))
        # The templates of an alternative need about as much time as the search of the task that it beats.
        counted = due if runs else sum(task.due for task in outlooks if task.weight) or due
        outlook = NetworkOutlook(
            network=", ".join(of_networks),
            target=str(target),
            hardware=device.name,
            database="" if folder is None else str(folder),
            checkpoint="" if checkpoint is None else checkpoint.path.name,
            programs=config.programs,
            tasks=outlooks,
            estimate=estimate(counted, config.search, device, runs) if due else None,
        )
    print_outlook(outlook, console)
    if config.output is not None:
        write_whole(config.output, json.dumps(asdict(outlook), indent=1) + "\n", field="output")
        say(console, f"wrote {config.output}")
    return outlook


def run_dynamic(config: InspectConfig, console: Console | None = None) -> DynamicOutlook:
    """Prints the kernels of a dynamic network, or of a library, and returns them. Raises UserError."""
    console = console or CommandConsole()
    if config.output is not None:
        check_writable(config.output, "output")
    if config.is_library:
        outlook = library_outlook(Path(config.network))
    elif len(config.members) > 1:
        raise InspectConfigError("several networks or inputs with dynamic shapes: inspect them one by one")
    else:
        with console.status(f"turning {config.network} into tasks"):
            network, dynamic = load_dynamic(
                config.network, config.inputs, config.batch, config.dims, config.seed, config.kwargs
            )
            outlook = network_outlook(network, dynamic, parse_target(config.target), config.lowering)
    outlook.print(console)
    if config.output is not None:
        outlook.write(config.output)
        say(console, f"wrote {config.output}")
    return outlook


def _device(config: InspectConfig, target: Target, measured: bool) -> Hardware:
    if config.hardware == HERE and is_cpu(target):
        return target_hardware(target, measured)
    return find_hardware(config.hardware, target)


def _predictor(
    config: InspectConfig, checkpoint: Checkpoint, target: Target, device: Hardware
) -> LatencyPredictor:
    """Uses the device's figures that a run stored with the database, if there are any."""
    folder = database_folder(config.database, target, device)
    noted = None if folder is None else read_device(folder)
    hardware = noted[1] if noted is not None else _device(config, target, measured=True)
    return LatencyPredictor(checkpoint, target, hardware, config.programs, config.seed)


def check(config: InspectConfig) -> None:
    """Raises UserError for a network that does not exist, without loading it."""
    for member in [] if config.is_library else config.members:
        check_name(member.network)


def main(config: DictConfig) -> None:
    """Entry point of `foretune inspect`."""
    settings = from_hydra(config, InspectConfig)
    if settings.is_dynamic:
        run_dynamic(settings)
    else:
        run(settings)
