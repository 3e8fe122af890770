"""Do features of the hardware help to predict latencies on a device that the model has not seen?

    python -m benchmarks.devices
    python -m benchmarks.devices --dry              # few programs and short trainings, writes no result

Each of eight CPU devices is held out in turn. A restricted target (SSE4, AVX2, one core) counts as a device.
Every device has equally many tasks with at most equally many programs, and all models are trained on the
same records. They differ in their inputs (`inputs.INPUTS`) and targets (`study.TARGETS`). Trees are trained
with every seed, networks with the first one. Finished fits are kept in `--runs-in`, so a stopped benchmark
resumes.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
from foretune.compiler.structure import DRAFT_VERSION
from foretune.dataset.records.store import RecordStore
from foretune.training.train import data_sha256
from hydra import initialize_config_module

from ..common import ROOT, argument_parser, machine_name, start, this_machine
from ..kept_runs import KeptRuns, add_options
from .agreement import agreements
from .records import DATASETS, REFERENCE, Programs, measured, write_chosen
from .study import MODELS, Fit, errors, fits

MINUTES = 60.0
"""Minutes after which no further fit begins, by default."""

DRY_TASKS, DRY_PROGRAMS, DRY_DEVICES = 12, 4, 2
DRY = ("trainer.max_epochs=1",)
"""Overrides of the trainings of a dry run."""


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--models", nargs="+", choices=MODELS, default=list(MODELS), help="(%(default)s)")
    add("--seeds", type=int, default=3, help="(%(default)s)")
    add("--tasks", type=int, help="of each device (as many as the device with the fewest has)")
    add("--programs", type=int, default=16, help="of each task, at most (%(default)s)")
    add("--dry", action="store_true", help="few programs, two devices and one seed; writes no result")
    add_options(parser, "outputs/benchmarks/devices", str(MINUTES), extends=False)
    parser.set_defaults(overrides=[])
    arguments = parser.parse_args(words)
    if arguments.dry:
        arguments.seeds, arguments.tasks, arguments.programs = 1, DRY_TASKS, DRY_PROGRAMS
        arguments.overrides, arguments.runs_in = list(DRY), arguments.runs_in / "dry"
    return arguments


def main() -> None:
    arguments, begun = arguments_of(), start()
    for name in ("pytorch_lightning", "lightning.pytorch"):  # which print lines at each training
        logging.getLogger(name).setLevel(logging.WARNING)
    runs = KeptRuns(arguments, MINUTES)
    sources = [RecordStore(ROOT / "data" / name).require() for name in DATASETS]
    rows, chosen = measured(sources), RecordStore(runs.folder / "records")
    write_chosen(rows, sources, chosen, arguments.tasks, arguments.programs)
    programs = Programs.of(chosen)
    devices = described(programs)
    held_out = list(devices)[: DRY_DEVICES if arguments.dry else None]
    with initialize_config_module("foretune.conf", version_base="1.3"):
        found = fitted(programs, list(fits(held_out, arguments.models, arguments.seeds)), runs, arguments)
    result = {
        **{"datasets": DATASETS, "programs": arguments.programs, "reference": REFERENCE},
        **{"devices": devices, "agreements": agreements(rows), "fits": found},
    }
    if not arguments.dry:
        runs.write("devices", result, begun, this_machine())


def fitted(
    programs: Programs, todo: Sequence[Fit], runs: KeptRuns, arguments: argparse.Namespace
) -> list[dict[str, Any]]:
    """Fits with their metrics by part of the device's tasks, as many as the time allows."""
    settings = {"data": data_sha256(programs.data), "feature_version": DRAFT_VERSION}
    found = []
    runs.progress.expect(len(todo))
    for fit in todo:
        if not runs.in_time(fit.name):
            continue
        words = {"words": [*fit.words(), *arguments.overrides]}
        make = partial(errors, programs, fit, arguments.overrides)
        if (parts := runs.kept(fit.name, {**settings, **words}, make)) is not None:
            found.append({**asdict(fit), "parts": parts})
            kept = {name: round(parts["all"][name], 3) for name in ("r2", "spearman") if name in parts["all"]}
            print(f"{fit.name}: {kept}", flush=True)
    return found


def described(programs: Programs) -> dict[str, dict[str, Any]]:
    """Devices with the numbers of their description, and of their tasks and records."""
    data, found = programs.data, {}
    for device in np.unique(data.hardware_id).tolist():
        rows = data.hardware_id == device
        hardware = programs.hardware[device]
        known = np.isin(data.shape[rows], data.shape[~rows])
        tasks = data.workload_hash[rows]
        numbers = ("cores", "vector_bits", "peak_gflops", "bandwidth_gbs")
        found[device] = {
            "machine": machine_name(asdict(hardware)),
            "cpu": json.loads(data.target[rows][0])["mcpu"],
            **{name: getattr(hardware, name) for name in numbers},
            "tasks": len(np.unique(tasks)),
            "seen_tasks": len(np.unique(tasks[known])),
            "records": int(rows.sum()),
        }
    return found


if __name__ == "__main__":
    main()
