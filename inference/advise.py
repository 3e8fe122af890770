"""`foretune advise`: cheap changes to a network (Bolt section 3.3), and sizes that waste register tiles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from rich.console import Console
from tvm.target import Target

from ..compiler.networks import AS_FASTEST, Lowering, extract_tasks, load_network, to_relax
from ..compiler.networks.dynamic.dynamic_inputs import is_dynamic
from ..compiler.networks.loading import check_name
from ..compiler.targets import is_cpu
from ..compiler.tvm_compat import parse_target
from ..configuration import check_least, from_hydra
from ..dataset.hardware import Hardware
from ..dataset.hardware.target_hardware import target_hardware
from ..dataset.measure import ExecutorConfig, MeasureConfig
from ..dataset.records.exchange import HERE, find_hardware
from ..errors import UserError
from ..files import check_writable, disk_errors
from ..models.checkpoints.checkpoint import Checkpoint
from ..models.checkpoints.shipped import AUTO
from ..progress import job_progress
from ..terminal import CommandConsole, say
from ..wording import counted
from .bolt.advice.activations import DEFAULT, check_activations
from .bolt.advice.content import Advice
from .bolt.advice.cost_file import KEPT_FILE
from .bolt.advice.latencies import LatencySource
from .bolt.advice.layers import read_layers
from .bolt.advice.measured import MeasuredLatencies
from .bolt.advice.predicted import PredictedLatencies, required_checkpoint
from .bolt.advice.run import AdviceRun, Asked
from .bolt.advice.write import print_advice, write_advice
from .dynamic.loading import load_dynamic
from .dynamic.wasteful_sizes import SizeAdvice, size_advice
from .run.network_set import members_of
from .search.config import OneShotConfig


class AdviseConfigError(UserError, ValueError):
    """A setting of the advice is out of range."""


class NothingToAdviseError(UserError, ValueError):
    """The network has no layer that could be built differently."""


@dataclass(frozen=True)
class AdviseConfig:
    """Settings of one advice; the fields are those in conf/advise.yaml."""

    network: str
    output: Path | None
    database: Path
    checkpoint: str | None = AUTO
    target: Any = "llvm"
    hardware: str = HERE
    inputs: list[Any] | None = None
    kwargs: dict[str, Any] | None = None
    batch: Any = 1
    dims: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    predict: bool = False
    activations: list[str] = field(default_factory=lambda: [*DEFAULT])
    align: int | None = None
    nearly_free: float = 0.01
    programs: int = 3
    drawn: int = 32
    workers: int | None = None
    lowering: Lowering = AS_FASTEST
    search: OneShotConfig = field(default_factory=lambda: OneShotConfig(rounds=1, top_k=16, reuse="off"))
    measure: MeasureConfig = field(default_factory=MeasureConfig)
    executor: ExecutorConfig = field(default_factory=ExecutorConfig)

    def __post_init__(self) -> None:
        check_activations(self.activations)
        least = {"programs": 1, "drawn": 1, "align": 1, "workers": 1, "seed": 0}
        check_least(self, least, AdviseConfigError)
        if not 0 <= self.nearly_free <= 1:
            raise AdviseConfigError(f"nearly_free={self.nearly_free}: a share of the network, in [0, 1]")
        if not self.predict and not self.search.measure:
            raise AdviseConfigError(
                "search.measure=false: advice that is measured searches by measuring; use predict=true for "
                "predictions"
            )
        if not self.predict and self.executor.kind in ("none", "replay", "dry_run"):
            raise AdviseConfigError(
                f"executor={self.executor.kind}: it measures no latencies of other layers; use predict=true "
                "for predictions, or another executor"
            )

    @property
    def is_dynamic(self) -> bool:
        """Whether extents of the inputs are symbols."""
        return is_dynamic(self.inputs, self.batch, self.dims)

    @property
    def folder(self) -> Path:
        """Folder of the advice: `output`, or by default a folder named after the network."""
        return self.output or Path("outputs/advise", members_of(self.network)[0].name)

    @property
    def asked(self) -> Asked:
        """Settings that define the subject of the advice."""
        return Asked(
            activations=tuple(self.activations),
            align=self.align,
            nearly_free=self.nearly_free,
            programs=self.programs,
            max_code=self.search.max_code,
        )


def run_dynamic(config: AdviseConfig, console: Console | None = None) -> SizeAdvice:
    """Predicts the advice on the sizes of a network, prints, writes and returns it. Raises UserError."""
    console = console or CommandConsole()
    check_writable(config.folder, "output", folder=True)
    with console.status(f"predicting the sizes of {config.network}"):
        network, dynamic = load_dynamic(
            config.network, config.inputs, config.batch, config.dims, config.seed, config.kwargs
        )
        advised = size_advice(network, dynamic, parse_target(config.target), config.lowering)
    advised.print(console)
    with disk_errors(config.folder):
        for path in advised.write(config.folder):
            say(console, f"wrote {path}")
    return advised


def run(config: AdviseConfig, console: Console | None = None) -> Advice:
    """Measures or predicts the advice on a network of fixed shapes, prints, writes and returns it.

    Raises UserError.
    """
    console = console or CommandConsole()
    check_writable(config.folder, "output", folder=True)
    with disk_errors(config.folder, kept=f"what was measured is kept in {config.folder}"):
        return _advised(config, console)


def _advised(config: AdviseConfig, console: Console) -> Advice:
    """`run` with a folder that can be written."""
    target = parse_target(config.target)
    checkpoint = required_checkpoint(config.checkpoint, target) if config.predict else None
    with console.status(f"turning {config.network} into tasks"):
        network = load_network(
            config.network,
            inputs=config.inputs,
            batch=config.batch,
            seed=config.seed,
            kwargs=config.kwargs,
        )
        tasks = extract_tasks(to_relax(network, target, config.lowering), target, network.name)
    layers = read_layers(tasks)
    if not layers:
        raise NothingToAdviseError(
            f"network={config.network}: it has {counted(len(tasks), 'task')}, and none is a convolution or "
            "linear layer in a form and data type that can be built otherwise; give a network that has some, "
            "in float32"
        )
    with _opened(config, target, checkpoint) as (source, hardware), job_progress(console) as progress:
        advised = AdviceRun(
            config.asked, target, hardware, source, progress, config.folder / KEPT_FILE
        ).advice(network.name, tasks, layers)
    print_advice(advised, console)
    for path in write_advice(advised, config.folder):
        say(console, f"wrote {path}")
    return advised


@contextmanager
def _opened(
    config: AdviseConfig, target: Target, checkpoint: Checkpoint | None
) -> Iterator[tuple[LatencySource, Hardware]]:
    """Source of latencies, and the device. The source predicts with `checkpoint`, and measures with None."""
    if checkpoint is not None:
        hardware = _device(config.hardware, target)
        yield PredictedLatencies(checkpoint, target, hardware, config.drawn, config.seed), hardware
        return
    with MeasuredLatencies(
        target,
        config.search,
        config.checkpoint,
        config.executor,
        config.measure,
        config.workers,
        tuned=config.database,
        own=config.folder / "database",
    ) as measured:
        yield measured, measured.hardware


def _device(name: str, target: Target) -> Hardware:
    if name == HERE and is_cpu(target):
        return target_hardware(target, measured=True)
    return find_hardware(name, target)


def check(config: AdviseConfig) -> None:
    """Raises UserError for a network that does not exist, without loading it."""
    check_name(config.network)


def main(config: DictConfig) -> None:
    """Entry point of `foretune advise`."""
    settings = from_hydra(config, AdviseConfig)
    if settings.is_dynamic:
        run_dynamic(settings)
    else:
        run(settings)
