"""A task whose schedules are all slower than none runs without one in the network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tvm
from foretune.compiler.networks import extract_tasks, load_network, to_relax
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.hardware import Hardware
from foretune.inference.database.tuning_database import TuningDatabase
from foretune.inference.deploy import trial
from foretune.inference.deploy.compile import CompiledNetwork
from foretune.inference.run import tuning_run
from foretune.inference.run.config import TuneConfig
from foretune.inference.run.result import TUNED
from foretune.inference.search.config import OneShotConfig
from foretune.inference.tune import run
from rich.console import Console
from support.schedules import add_schedules
from tvm.s_tir import meta_schedule as ms

TARGET = parse_target("llvm")
NETWORK = {
    "network": "torch.nn:Linear",
    "inputs": [[4, 16]],
    "kwargs": {"in_features": 16, "out_features": 8},
}


@pytest.mark.slow
@pytest.mark.parametrize(("known_s", "scheduled"), [(1000.0, False), (1e-12, True)])
def test_a_schedule_of_an_earlier_run_is_taken_where_it_is_faster(
    known_s: float, scheduled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class EarlierDatabase(TuningDatabase):
        """Database in which an earlier run measured a schedule at `known_s` seconds."""

        def __init__(
            self, root: Path, target: tvm.target.Target, hardware: Hardware, *, read_only: bool = False
        ) -> None:
            super().__init__(root, target, hardware, read_only=read_only)
            tasks = extract_tasks(to_relax(load_network(**as_loaded()), target), target, "linear")
            add_schedules(ms.database.JSONDatabase(work_dir=str(self.folder)), tasks, target, known_s)
            super().__init__(root, target, hardware, read_only=read_only)

    compiled: list[CompiledNetwork] = []

    def noted(*arguments: Any, **options: Any) -> CompiledNetwork:
        compiled.append(compile_network(*arguments, **options))
        return compiled[-1]

    compile_network = trial.compile_network
    monkeypatch.setattr(tuning_run, "TuningDatabase", EarlierDatabase)
    monkeypatch.setattr(trial, "compile_network", noted)
    result = run(
        TuneConfig(
            **NETWORK,
            output=tmp_path / "report",
            database=tmp_path / "database",
            checkpoint=None,
            search=OneShotConfig("evolutionary", processes=0),
            budget_s=1e-9,  # no time for a search
            untuned_limit_s=1e-9,
            workers=1,
            rivals=[],
            timing_repeats=1,
        ),
        Console(quiet=True),
    )
    assert [one.name for one in result.contestants] == [TUNED]  # the untuned network takes too long
    (task,) = result.tasks
    assert bool(compiled[0].scheduled) is scheduled
    assert (task.tuned_latency_s is not None) is scheduled
    assert task.reason == ("" if scheduled else "untuned is faster")


def as_loaded() -> dict[str, Any]:
    """The network as `load_network` takes it."""
    return {"name_or_path": NETWORK["network"], **{k: NETWORK[k] for k in ("inputs", "kwargs")}}
