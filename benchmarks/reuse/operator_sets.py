"""Operator sets of networks: Figures 9 to 11 of ETO."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import tvm
from foretune.compiler.networks import extract_tasks, load_network, to_relax
from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import parse_target
from foretune.inference import tune_tasks
from foretune.inference.reuse.config import EtoConfig
from foretune.inference.run.network_set import members_of, operator_set
from foretune.inference.search.config import OneShotConfig

from ..tasks import time_in_turns


def _tokens(batch: int, length: int) -> list[dict[str, Any]]:
    return [{"shape": [batch, length], "dtype": "int64"}]


OWN_NETWORKS = f"{__package__}.networks"
"""Module with the networks that no zoo has."""

SETS: Mapping[str, Mapping[str, Any]] = {
    "bert_base": {"network": "bert_base"},
    "dcgan": {"network": "dcgan"},
    "resnet50": {"network": "resnet50"},
    "mobilenetv2": {"network": "mobilenetv2"},
    "resnest50": {"network": "resnest50"},
    "inception_1d": {"network": f"{OWN_NETWORKS}:inception_resnet_1d", "inputs": [[1, 3, 299]]},
    "r2plus1d_18": {"network": f"{OWN_NETWORKS}:r2plus1d_18", "inputs": [[1, 3, 8, 112, 112]]},
    "bert_l": {
        "network": ["bert_base", "bert_large"],
        "inputs": [_tokens(batch, length) for batch in (1, 16) for length in (64, 128)],
    },
    "resnet50_l": {"network": "resnet50", "batch": [1, 16]},
}
"""Networks of each set, in the order of the runs. Clips of R(2+1)D have 8 frames instead of 16."""

METHODS: Mapping[str, Mapping[str, Any]] = {
    "backend": {"reuse": "off"},
    "eto": {"reuse": "paper", "bridges": "one_hop"},
    "selective": {"reuse": "selective"},
    "auto": {"reuse": "auto"},
    "eto_no_bridges": {"reuse": "paper", "bridges": "none"},
    "eto_all_bridges": {"reuse": "paper", "bridges": "all"},
}
"""Settings of each method; `auto` is Foretune's own."""

FIGURE_11 = ("eto_no_bridges", "eto_all_bridges")
"""Methods for the sets in BRIDGED only."""

BRIDGED = ("mobilenetv2", "resnet50")
"""Sets that are also searched without bridges and with all bridges."""

TURNS = 5
"""Timed runs of each program."""


def methods_of(name: str) -> list[str]:
    """Methods of a set."""
    return [method for method in METHODS if name in BRIDGED or method not in FIGURE_11]


@cache
def tasks_of(name: str) -> list[Task]:
    """Operators of a set for this CPU: tasks with a sketch, each with the sum of its calls."""
    target = parse_target("llvm")
    found: dict[str, list[Task]] = {}
    for member in members_of(**SETS[name]):
        network = load_network(**member.arguments(0, None))
        tasks = extract_tasks(to_relax(network, target), target, network.name)
        found[member.name] = [task for task in tasks if task.operator != "elementwise"]
    return operator_set(found)


def one_run(name: str, method: str, trials: int, seed: int) -> dict[str, Any]:
    """Tunes the operators of a set by a method from an empty database.

    `best` are the fastest programs (TVM's JSON) by operator, null for an operator without one. `found_s` are
    their latencies in seconds as the search measured them.
    """
    target = parse_target("llvm")
    tasks = tasks_of(name)
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        database, results = tune_tasks(tasks, target, Path(folder), search=settings_of(method, trials, seed))
        seconds = time.monotonic() - began
        schedules = [database.query_schedule(task.mod, target, "main") for task in tasks]
    return {
        "operators": len(tasks),
        "searched": sum(not result.parent for result in results if result.weight),
        "bridges": sum(not result.weight for result in results),
        "programs": sum(result.candidates_measured for result in results),
        "seconds": seconds,
        "best": [None if one is None else tvm.ir.save_json(one.mod) for one in schedules],
        "found_s": [result.latency_s for result in results[: len(tasks)]],
    }


def timed(name: str, runs: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Seconds of all calls of the operators with the programs of each method, timed in turns.

    An operator without a program counts with the latency that the search measured for it without a schedule.
    """
    places = [
        (method, number)
        for number in range(len(tasks_of(name)))
        for method, run in runs.items()
        if run["best"][number] is not None
    ]
    modules = [runs[method]["best"][number] for method, number in places]
    medians = time_in_turns(modules, parse_target("llvm"), flush=True, turns=TURNS)
    seconds = dict(zip(places, medians, strict=True))
    return {
        method: sum(
            task.weight * seconds.get((method, number), run["found_s"][number] or math.inf)
            for number, task in enumerate(tasks_of(name))
        )
        for method, run in runs.items()
    }


def summary(
    runs: Mapping[str, Mapping[str, Any]], latency_s: Mapping[str, float], trials: int
) -> dict[str, Any]:
    """JSON values of the runs of a set by method, without their programs."""
    left_out = ("best", "found_s")
    return {
        method: {
            "trials": trials,
            **{name: run[name] for name in run if name not in left_out},
            "latency_s": latency_s[method],
        }
        for method, run in runs.items()
    }


def settings_of(method: str, trials: int, seed: int) -> OneShotConfig:
    """Search of a method; stock MetaSchedule measures `trials` candidates of each task without a parent."""
    options = dict(METHODS[method])
    eto = EtoConfig(trials=trials, bridges=options.pop("bridges", "none"))
    if method == "auto":
        return OneShotConfig(**options, eto=eto, seed=seed)
    if method == "backend":
        return replace(OneShotConfig(reuse="top_k", eto=eto, seed=seed).for_reuse(), reuse="off")
    return OneShotConfig(**options, eto=eto, seed=seed).for_reuse()


def describe(name: str, method: str, run: Mapping[str, Any]) -> str:
    """One line about a run."""
    return (
        f"{name}, {method}: {run['searched']} of {run['operators']} searched, {run['bridges']} bridges, "
        f"{run['programs']} programs, {run['seconds']:.0f} s"
    )
