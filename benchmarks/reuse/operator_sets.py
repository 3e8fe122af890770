"""Operator sets of networks: Figures 9 to 11 of ETO."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from foretune.dataset.networks import extract_tasks, load_network, to_relax
from foretune.dataset.task import Task
from foretune.dataset.tvm_compat import parse_target
from foretune.inference import tune_tasks
from foretune.inference.config import OneShotConfig
from foretune.inference.network_set import members_of, operator_set
from foretune.inference.reuse.backend import with_backend
from foretune.inference.reuse.config import EtoConfig
from tvm.target import Target


def _tokens(batch: int, length: int) -> list[dict[str, Any]]:
    return [{"shape": [batch, length], "dtype": "int64"}]


SETS: Mapping[str, Mapping[str, Any]] = {
    "resnet50": {"network": "resnet50"},
    "mobilenetv2": {"network": "mobilenetv2"},
    "resnext50": {"network": "resnext50"},
    "dcgan": {"network": "dcgan"},
    "bert_base": {"network": "bert_base"},
    "resnet50_l": {"network": "resnet50", "batch": [1, 16]},
    "bert_l": {
        "network": "bert_base",
        "inputs": [_tokens(batch, length) for batch in (1, 16) for length in (64, 128)],
    },
}
"""Networks of each set. ResNeXt-50 stands for ResNeSt-50, whose grouped convolutions it has; the 1-D
Inception-ResNet, R(2+1)D and BERT-large are in no zoo that is read here."""

METHODS: Mapping[str, Mapping[str, Any]] = {
    "backend": {"reuse": "off"},
    "eto": {"reuse": "paper", "bridges": "one_hop"},
    "eto_no_bridges": {"reuse": "paper", "bridges": "none"},
    "eto_all_bridges": {"reuse": "paper", "bridges": "all"},
    "selective": {"reuse": "selective"},
    "auto": {"reuse": "auto"},
}
"""Settings of each method; `auto` is Foretune's own."""


def tasks_of(name: str, target: Target) -> list[Task]:
    """Operators of a set: tasks with a sketch, each with the sum of its calls."""
    found: dict[str, list[Task]] = {}
    for member in members_of(**SETS[name]):
        network = load_network(**member.arguments(0, None))
        tasks = extract_tasks(to_relax(network, target), target, network.name)
        found[member.name] = [task for task in tasks if task.operator != "elementwise"]
    return operator_set(found)


def one_run(name: str, method: str, trials: int, seed: int) -> dict[str, Any]:
    """Tunes the operators of a set by a method from an empty database."""
    target = parse_target("llvm")
    tasks = tasks_of(name, target)
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        _, results = tune_tasks(tasks, target, Path(folder), search=settings_of(method, trials, seed))
        seconds = time.monotonic() - began
    own = [result for result in results if result.weight]
    latencies = [result.weight * (result.latency_s or math.inf) for result in own]
    return {
        "operators": len(own),
        "searched": sum(not result.parent for result in own),
        "bridges": len(results) - len(own),
        "programs": sum(result.candidates_measured for result in results),
        "seconds": seconds,
        "latency_s": sum(latencies),
    }


def settings_of(method: str, trials: int, seed: int) -> OneShotConfig:
    """Search of a method; stock MetaSchedule measures `trials` candidates of each task without a parent."""
    options = dict(METHODS[method])
    eto = EtoConfig(trials=trials, bridges=options.pop("bridges", "none"))
    if method == "auto":
        return OneShotConfig(**options, eto=eto, seed=seed)
    if method == "backend":
        return replace(with_backend(OneShotConfig(reuse="top_k", eto=eto, seed=seed)), reuse="off")
    return with_backend(OneShotConfig(**options, eto=eto, seed=seed))


def describe(name: str, method: str, run: Mapping[str, Any]) -> str:
    """One line about a run."""
    return (
        f"{name}, {method}: {run['searched']} of {run['operators']} searched, {run['bridges']} bridges, "
        f"{run['programs']} programs, {run['seconds']:.0f} s, {1e3 * run['latency_s']:.3f} ms"
    )
