"""Move to a new device: models of other devices, and their adaptation to this one by k measured tasks.

The source consists of a cost model, a draft model, two explorers and a file of pretuned schedules, all made
of the records that other machines measured (sections 4.1, 6.1 and 6.2). It is made once and offline. Each
seed then measures k tasks of different Spearman clusters on this machine and fine-tunes both models with them
(section 4.2).
"""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from foretune.dataset.hardware import Hardware
from foretune.dataset.records.merge import merge_datasets
from foretune.dataset.records.schema import RECORD_SCHEMA
from foretune.dataset.records.store import RecordStore
from foretune.errors import UserError
from foretune.inference.fasor.primitives import PRIMITIVES
from foretune.inference.fasor.sub_space import BOUNDS

from ..checkouts import python_in
from ..common import ROOT, machine_name
from ..kept_runs import KeptRuns
from ..trained_on import CPUS

DATASETS = (*CPUS, "cpu-xeon")

COST_MODEL = (
    *("model=fasor", "target.name=log_score", "data.keep_slow=true", "data.batch_size=256"),
    *("loss.rank=0.1", "loss.sigma=10", "loss.offset=0.2", "trainer.progress_bar=false"),
)
"""Settings of Fasor's Transformer (sections 4.1 and 7), fitted to scores like the shipped models."""

DRAFT = ("model=draft", *COST_MODEL[1:])


RUN = "-run"
"""End of the name of a run folder, after the name of its checkpoint."""


@dataclass(frozen=True)
class Command:
    """A command of foretune with the checkpoint or file that it writes."""

    words: tuple[str, ...]
    writes: Path

    @property
    def done(self) -> Path:
        """File that exists after the command."""
        return self.writes if self.writes.suffix else self.writes / "card.json"

    def run(self) -> float:
        """Runs the command, or continues an interrupted training; returns the seconds of this call.

        Raises CalledProcessError.
        """
        if self.writes.is_dir():
            shutil.rmtree(self.writes)
        folder = Path(f"{self.writes}{RUN}")
        interrupted = self.words[0] in ("train", "reinforce") and any(folder.rglob("last.ckpt"))
        begun = time.monotonic()
        python_in(ROOT, ["-m", "foretune", *self.words, *(["resume=true"] if interrupted else [])])
        shutil.rmtree(folder, ignore_errors=True)
        return time.monotonic() - begun


@dataclass(frozen=True)
class Move:
    """Folders and settings of a move."""

    folder: Path
    k: int = 10
    records: int = 20
    """Programs measured of each chosen task."""
    epochs: int = 12
    """Epochs of the source's cost model."""
    threads: int = 2

    @property
    def elsewhere(self) -> Path:
        """Dataset of the records of other machines."""
        return self.folder / "elsewhere"

    @property
    def source(self) -> Path:
        return self.folder / "source"

    def moved(self, seed: int) -> Path:
        """Folder of the adapted models of a seed."""
        return self.folder / f"moved-{seed}"

    def placed(self, words: Sequence[str], seed: int) -> tuple[str, ...]:
        """Overrides of a search with the folders of this move."""
        places = {"{source}": self.source, "{moved}": self.moved(seed)}
        found = []
        for word in words:
            for place, folder in places.items():
                word = word.replace(place, str(folder))
            found.append(word)
        return tuple(found)

    def offline(self) -> dict[str, Command]:
        """Commands that make the source from `elsewhere`."""
        draft = self._path("model-draft")
        return {
            "cost model": self._train("model", *COST_MODEL, f"trainer.max_epochs={self.epochs}"),
            "draft model": self._train("model-draft", *DRAFT, "trainer.max_epochs=40"),
            "explorer": self._explorer("explorer", draft),
            "explorer without ratio": self._explorer(
                "explorer-without-ratio",
                draft,
                "reward.high_efficiency.ratio=0",
                "reward.high_quality.ratio=0",
            ),
            "pretuned schedules": Command(
                ("pretune", f"dataset=[{self.elsewhere}]", f"into={self._path('pretuned.parquet')}"),
                self._path("pretuned.parquet"),
            ),
        }

    def measuring(self, seed: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Commands that choose the tasks and measure them, into the dataset `few` of the seed."""
        few, source = self.moved(seed) / "few", self._path("model")
        chosen = ("finetune", f"checkpoint={source}", f"dataset={self.elsewhere}", f"tasks_into={few}")
        measured = ("generate", f"dataset={few}", f"tasks_from={few}", f"tasks={self.k}", f"seed={seed}")
        return (
            (*chosen, f"choice.k={self.k}", f"hydra.run.dir={self.moved(seed) / 'choice'}"),
            (*measured, f"records_per_task={self.records}", "datasheet=false"),
        )

    def adapting(self, seed: int) -> dict[str, Command]:
        """Commands that adapt the models of the source to the measured tasks, or train them anew."""
        found = {}
        for name, kept in (("plain", 0.0), ("mixed", 0.5)):
            for of in ("", "-draft"):
                path = self.moved(seed) / f"{name}{of}"
                words = ("finetune", f"checkpoint={self._path('model')}{of}", f"choice.k={self.k}")
                words = (*words, f"keep={kept}", "trainer.progress_bar=false")
                found[f"{name}{of}"] = self._on_few(seed, path, words)
        for of, settings in (("", COST_MODEL), ("-draft", DRAFT)):
            path = self.moved(seed) / f"scratch{of}"
            words = ("train", *settings, "trainer.max_epochs=60", "split.test=0", "split.validation=0.2")
            found[f"scratch{of}"] = self._on_few(seed, path, words)
        return found

    def _path(self, name: str) -> Path:
        return self.source / name

    def _train(self, name: str, *words: str) -> Command:
        path = self._path(name)
        places = (f"dataset={self.elsewhere}", f"checkpoint_dir={path}", f"hydra.run.dir={path}{RUN}")
        return Command(("train", *places, *words, f"trainer.threads={self.threads}"), path)

    def _explorer(self, name: str, draft: Path, *words: str) -> Command:
        path = self._path(name)
        places = (f"dataset=[{self.elsewhere}]", f"checkpoint_dir={path}", f"hydra.run.dir={path}{RUN}")
        return Command(("reinforce", *places, f"environment={draft}", *words), path)

    def _on_few(self, seed: int, path: Path, words: Sequence[str]) -> Command:
        places = (
            f"dataset={self.moved(seed) / 'few'}",
            f"checkpoint_dir={path}",
            f"hydra.run.dir={path}{RUN}",
        )
        return Command((*words, *places, f"seed={seed}", f"trainer.threads={self.threads}"), path)


def gather(datasets: Sequence[Path], into: Path, here: str) -> dict[str, Any]:
    """Writes the records of other machines than `here`, a `machine_name`; returns their numbers.

    Raises UserError if no other machine measured anything.
    """
    for folder in (into, merged := into.with_name(f".{into.name}-merged")):
        shutil.rmtree(folder, ignore_errors=True)
    everything, found = RecordStore(merged), RecordStore(into)
    merge_datasets([RecordStore(dataset) for dataset in datasets], everything)
    devices = {
        name: machine
        for name, hardware in everything.hardware().items()
        if (machine := machine_name(asdict(hardware))) != here
    }
    rows = everything.columns(*RECORD_SCHEMA.names, "key")
    rows = rows.filter(pa.array([name in devices for name in rows["hardware_id"].to_pylist()], pa.bool_()))
    if not len(rows):
        raise UserError(f"{', '.join(map(str, datasets))}: all records are of this machine, {here}")
    measured = set(rows["workload_hash"].to_pylist())
    with found.writing(), found.transaction():
        found.append_columns(rows)
        found.append_tasks([task for task in everything.tasks() if task.workload_hash in measured])
        for name in set(rows["hardware_id"].to_pylist()):
            found.put_hardware(everything.hardware()[name])
    shutil.rmtree(merged)
    names = {devices[name] for name in rows["hardware_id"].to_pylist()}
    return {"records": len(rows), "tasks": len(measured), "machines": sorted(names)}


def measure(move: Move, seed: int) -> dict[str, Any]:
    """Chooses and measures the k tasks of a seed from nothing; their number, programs and seconds."""
    folder = move.moved(seed)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    seconds = []
    for words in move.measuring(seed):
        begun = time.monotonic()
        python_in(ROOT, ["-m", "foretune", *words])
        seconds.append(time.monotonic() - begun)
    rng = random.Random(seed)
    weights = {bound: {name: rng.random() for name in PRIMITIVES} for bound in BOUNDS}
    (folder / "random_weights.json").write_text(json.dumps(weights), encoding="utf-8")
    rows = RecordStore(folder / "few").columns("workload_hash", "failure").to_pylist()
    tasks = {row["workload_hash"] for row in rows}
    return {"tasks": len(tasks), "measured": len(rows), "choose_s": seconds[0], "measure_s": seconds[1]}


def go(move: Move, runs: KeptRuns, here: Hardware, seeds: int) -> dict[str, Any] | None:
    """Makes the source and the adapted models of each seed, and returns their costs; None if time is over.

    `source` has the records of other machines and the offline seconds; `seeds` has a row per seed.
    """
    gathered = _kept(
        runs,
        "source-records",
        {"datasets": DATASETS},
        partial(
            gather, [ROOT / "data" / name for name in DATASETS], move.elsewhere, machine_name(asdict(here))
        ),
    )
    if gathered is None:
        return None
    offline = _commands(runs, "source", move.offline())
    rows: list[dict[str, Any]] = []
    for seed in range(seeds if offline is not None else 0):
        settings = {"words": move.measuring(seed), "source": move.offline()["cost model"].words}
        measured = _kept(runs, f"moved-{seed}", settings, partial(measure, move, seed))
        adapted = None if measured is None else _commands(runs, f"moved-{seed}", move.adapting(seed))
        if measured is None or adapted is None:
            return None
        rows.append({"seed": seed, **measured, "adapt_s": adapted})
    return None if offline is None else {"source": {**gathered, "seconds": offline}, "seeds": rows}


def _commands(runs: KeptRuns, prefix: str, commands: dict[str, Command]) -> dict[str, float] | None:
    """Seconds of each command; None if one failed or found no time."""
    seconds = {}
    for name, command in commands.items():
        label = f"{prefix}-{name.replace(' ', '-')}"
        taken = _kept(runs, label, {"words": command.words}, command.run, command.done)
        if taken is None:
            return None
        seconds[name] = taken
    return seconds


def _kept(runs: KeptRuns, name: str, settings: dict[str, Any], make: Any, written: Path | None = None) -> Any:
    return runs.kept(name, settings, make, written=written) if runs.in_time(name) else None
