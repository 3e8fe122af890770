"""`foretune checkpoints`: list checkpoints, show their cards, check them.

Each function takes the composed settings of its file in conf/ and returns the exit status: 0, or 1 for a
finding. They raise UserError.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from omegaconf import DictConfig

from ..configuration import from_hydra
from ..page import Column, Fact, Table, columns
from ..terminal import CommandConsole, print_facts, print_table, say, short_path
from ..wording import counted, duration
from .checkpoints.card import Card
from .checkpoints.checkpoint import (
    CARD_FILE,
    SHIPPED,
    WEIGHTS_FILE,
    CheckpointError,
    CheckpointNotFoundError,
    StoredNetwork,
    load_network,
    shipped_checkpoints,
    shipped_explorers,
)

METRICS = {
    "spearman": "spearman",
    "pairwise_accuracy": "pairs",
    "top_1": "top-1",
    "top_5": "top-5",
    "r2": "R2",
}
"""Metrics of the list, of the test part, and their titles."""

_COLUMNS = (
    Column("checkpoint", text=True, whole=True),
    Column("model", text=True),
    Column("MB", drop=1),
    Column("tasks", drop=4),
    Column("records", drop=3),
    *(Column(title, drop=2 if name == "r2" else 0) for name, title in METRICS.items()),
)


@dataclass(frozen=True)
class ListConfig:
    """Fields of conf/checkpoints_list.yaml."""

    folder: Path | None = None


@dataclass(frozen=True)
class CheckpointShowConfig:
    """Fields of conf/checkpoints_show.yaml."""

    checkpoint: str
    json: bool = False


@dataclass(frozen=True)
class CheckpointVerifyConfig:
    """Fields of conf/checkpoints_verify.yaml."""

    checkpoint: list[str] = field(default_factory=list)


def list_(config: DictConfig) -> int:
    """Prints one line a checkpoint; status 1 if one cannot be read."""
    folder = from_hydra(config, ListConfig).folder
    console = CommandConsole()
    found = _found(folder)
    if not found:
        say(console, f"no checkpoint in {folder or SHIPPED}")
        return 0
    rows, broken = [], []
    for name in found:
        try:
            rows.append(_line(name, load_network(name)))
        except CheckpointError as error:
            broken.append(f"{name}: {error}")
    print_table(Table("", _COLUMNS, rows), console)
    for text in broken:
        say(console, text, "red")
    return 1 if broken else 0


def show(config: DictConfig) -> int:
    """Prints the card of a checkpoint."""
    settings = from_hydra(config, CheckpointShowConfig)
    console = CommandConsole()
    checkpoint = load_network(settings.checkpoint)
    if settings.json:
        print((checkpoint.path / CARD_FILE).read_text(encoding="utf-8"), end="")
        return 0
    print_facts([Fact(label, value, "") for label, value in _facts(checkpoint)], console)
    metrics = checkpoint.card.metrics
    names = dict.fromkeys(name for of_part in metrics.values() for name in of_part)
    rows = [[name, *(_number(of_part.get(name)) for of_part in metrics.values())] for name in names]
    print_table(Table("", columns("metric", *metrics), rows), console)
    return 0


def verify(config: DictConfig) -> int:
    """Prints every problem of the checkpoints; status 1 if there is one."""
    from .checkpoints.verification import problems

    settings = from_hydra(config, CheckpointVerifyConfig)
    console = CommandConsole()
    status = 0
    for name in settings.checkpoint or [*shipped_checkpoints(), *shipped_explorers()]:
        started = time.perf_counter()
        with_problems = list(problems(name))
        seconds = time.perf_counter() - started
        if with_problems:
            status = 1
            for problem in with_problems:
                say(console, f"{name}: {problem}", "red")
        else:
            say(console, f"{name}: card, hash, weights and predictions are correct ({seconds:.2f} s)")
    return status


def _found(folder: Path | None) -> list[str]:
    """Names of the shipped checkpoints, or paths of all checkpoints under a folder."""
    if folder is None:
        return [*shipped_checkpoints(), *shipped_explorers()]
    if not folder.is_dir():
        raise CheckpointNotFoundError(f"folder={folder}: is no folder; give one that holds checkpoints")
    return [short_path(card.parent) for card in sorted(folder.rglob(CARD_FILE))]


def _line(name: str, checkpoint: StoredNetwork) -> list[str]:
    card = checkpoint.card
    test = card.metrics.get("test", {})
    return [
        name,
        card.model.title,
        f"{(checkpoint.path / WEIGHTS_FILE).stat().st_size / 1e6:.1f}",
        f"{card.data.tasks:,}",
        f"{card.data.records:,}",
        *(_number(test.get(metric)) for metric in METRICS),
    ]


def _facts(checkpoint: StoredNetwork) -> list[tuple[str, str]]:
    card, dims = checkpoint.card, checkpoint.card.normaliser.dims
    split = ", ".join(
        f"{name} {counted(len(value), 'task') if isinstance(value, list) else value}"
        for name, value in card.split.config.items()
        if value
    )
    parts = card.training.get("combined", [])
    return [
        ("checkpoint", str(checkpoint.path)),
        ("weights", f"{counted(_parameters(checkpoint), 'parameter')}, SHA-256 {card.weights_sha256}"),
        *(
            ("model", f"{kind.members} x {kind.name} {_settings(kind.arguments)}")
            for kind in card.model.kinds
        ),
        ("target", _settings(vars(card.target))),
        (
            "features",
            f"version {card.feature_version}: {dims.stores} a store, {dims.decisions} a decision, "
            f"{dims.task} of the task and the program, {dims.hardware} of the hardware",
        ),
        (
            "trained on",
            f"{counted(card.data.records, 'record')} of {counted(card.data.tasks, 'task')}, "
            f"data {card.data.sha256}",
        ),
        ("operators", ", ".join(card.data.operators)),
        ("devices", ", ".join(card.data.hardware_ids)),
        ("split", f"{split}; {_counts(card)}"),
        ("seed", str(card.seed)),
        *((f"training: {name}", _text(value)) for name, value in card.training.items() if name != "combined"),
        *(
            (
                f"part {number} of {len(parts)}",
                f"{part['model']}, seed {part['seed']}, {_epochs(part['epochs'])}"
                f"{duration(part['seconds'])}, SHA-256 {part['weights_sha256']}",
            )
            for number, part in enumerate(parts, 1)
        ),
        *((f"made by: {name}", _text(value)) for name, value in vars(card.provenance).items()),
    ]


def _epochs(number: int) -> str:
    """Epochs of a training; trees have none."""
    return f"{counted(number, 'epoch')}, " if number else ""


def _counts(card: Card) -> str:
    return ", ".join(
        counted(len(card.split.tasks(part)), f"{part} task") for part in ("train", "validation", "test")
    )


def _parameters(checkpoint: StoredNetwork) -> int:
    return sum(weights.numel() for weights in checkpoint.network.parameters())


def _settings(values: dict[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _text(value: object) -> str:
    return _settings(value) if isinstance(value, dict) else str(value)


def _number(value: float | None) -> str:
    return (
        "-"
        if value is None
        else f"{value:,.0f}"
        if float(value).is_integer() and value > 1
        else f"{value:.3f}"
    )
