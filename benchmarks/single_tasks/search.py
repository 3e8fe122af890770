"""Process that searches one task; its arguments are TASK.json OUT.json SEED NAME=VALUE ...

A setting is a field of OneShotConfig, as in `rounds=4`, `strategy=evolutionary` or `stop.minimum=4`, or
`checkpoint=PATH`. The process uses only the public API, so that it runs with each checkout of Foretune.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import tvm
from foretune.compiler.tvm_compat import parse_target
from foretune.inference import OneShotConfig, tune_tasks


def config_of(words: Sequence[str], seed: int) -> tuple[OneShotConfig, dict[str, Any]]:
    """Settings of the search, and further arguments of `tune_tasks`."""
    own: dict[str, Any] = {"seed": seed}
    nested: dict[str, dict[str, Any]] = {}
    further: dict[str, Any] = {}
    for name, _, text in (word.partition("=") for word in words):
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            value = text
        group, _, inner = name.rpartition(".")
        if name == "checkpoint":
            further[name] = value
        elif group:
            nested.setdefault(group, {})[inner] = value
        else:
            own[name] = value
    defaults = OneShotConfig()
    groups = {group: replace(getattr(defaults, group), **fields) for group, fields in nested.items()}
    return OneShotConfig(**own, **groups), further


def measured_in(folder: Path) -> list[float]:
    """Latencies in seconds of the programs in a folder's one database, in the order of measurement.

    A program that was timed repeatedly counts with its first time.
    """
    found: dict[str, float] = {}
    for file in folder.rglob("database_tuning_record.json"):
        for line in file.read_text().splitlines():
            trace, seconds, *_ = json.loads(line)[1]
            found.setdefault(json.dumps(trace), min(seconds))
    return list(found.values())


def main() -> None:
    task, out, seed, *words = sys.argv[1:]
    module = tvm.ir.load_json(Path(task).read_text())
    config, further = config_of(words, int(seed))
    target = parse_target("llvm")
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        database, (result,) = tune_tasks([module], target, folder, search=config, **further)
        seconds = time.perf_counter() - began
        found = database.query_ir_module(module, target, "main")
        latencies_s = measured_in(Path(folder))
    run = {
        "seconds": seconds,
        "measured": result.candidates_measured,
        "scored": result.candidates_scored,
        "failed": result.candidates_failed,
        "told_s": result.tuned_latency_s,
        "latencies_s": latencies_s,
        "module": None if found is None else tvm.ir.save_json(found),
    }
    Path(out).write_text(json.dumps(run))


if __name__ == "__main__":
    main()
