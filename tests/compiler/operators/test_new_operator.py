"""An operator added as one module is built, read, logged, sampled and recorded with no other file changed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from foretune.compiler import operators
from foretune.compiler.operators import (
    OPERATOR_SETTINGS,
    SettingsError,
    register,
    settings_from_dict,
    to_task,
)
from foretune.compiler.operators.anchor import describe
from foretune.compiler.operators.registry import discover
from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import argument_buffers, design_spaces, make_tune_context, parse_target
from foretune.dataset.records.store import RecordStore
from foretune.dataset.records.stored_tasks import stored_rows, stored_task, task_row
from foretune.dataset.records.task_shapes import shape_of
from foretune.dataset.sampling.tasks import SAMPLERS, default_operators, sample_settings, sample_tasks
from foretune.dataset.sampling.zoo.operator_log import log_operators
from foretune.dataset.sampling.zoo.table import ZooRow, read_zoo_table, write_zoo_table
from support.operators import pytorch_output, random_inputs, run
from torch import nn

FOLDER = Path(__file__).with_name("new_operator")
MODULE = "foretune.compiler.operators.matvec"


@pytest.fixture
def matvec(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The package `compiler.operators` as if it held the new module too: its settings class."""
    registered = dict(OPERATOR_SETTINGS)
    monkeypatch.setattr(operators, "__path__", [*operators.__path__, str(FOLDER)])
    discover(operators.__name__, operators.__path__)
    yield operators.MatVec
    OPERATOR_SETTINGS.clear()
    OPERATOR_SETTINGS.update(registered)
    del sys.modules[MODULE]
    del operators.matvec


def test_the_package_has_it_only_with_its_module(matvec: Any) -> None:
    assert OPERATOR_SETTINGS["matvec"] is matvec and matvec.__module__ == MODULE
    order = list(OPERATOR_SETTINGS)
    assert order.index("matvec") > order.index("frobenius_norm")  # the last that draws of a seed depend on


def test_without_its_module_it_is_unknown() -> None:
    assert MODULE not in sys.modules
    with pytest.raises(SettingsError, match="operator='matvec': use one of conv2d"):
        settings_from_dict("matvec", {"rows": 1, "taps": 1})
    with pytest.raises(AttributeError, match="no attribute 'MatVec'"):
        _ = operators.MatVec


def test_a_name_that_is_taken_is_refused(matvec: Any) -> None:
    with pytest.raises(ValueError, match=rf"operator='matvec' of .*: {MODULE} has it; choose another name"):
        register(matvec)


def test_it_is_built_and_computes_its_reference(matvec: Any) -> None:
    example = matvec.examples()[0]
    for op in [*matvec.examples(), *(replace(example, epilogue=name) for name in matvec.epilogues)]:
        task = to_task(op)
        inputs = random_inputs(op, task)
        np.testing.assert_allclose(
            run(task, inputs), pytorch_output(op, inputs).numpy(), rtol=1e-5, atol=1e-5
        )
        spaces = design_spaces(make_tune_context(task.mod, parse_target("llvm"), seed=0), task.name)
        assert all(space.trace.decisions for space in spaces)
    assert to_task(example).flops == example.flops


def test_it_is_recognised_in_tir(matvec: Any) -> None:
    op = matvec(rows=6, taps=11, epilogue="bias_relu", dtype="float16")
    assert describe(to_task(op).mod) == ("matvec", {"rows": 6, "taps": 11, "dtype": "float16"})


def test_it_is_read_from_a_networks_calls_with_what_is_fused_behind_it(matvec: Any) -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.matrix = nn.Parameter(torch.empty(3, 8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(torch.mv(self.matrix, x))

    found = log_operators(lambda: (Layer(), (torch.empty(8),)))
    assert found.calls == {matvec(rows=3, taps=8, epilogue="relu"): 1}
    assert not found.skipped


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_draws_it(sampler: str, matvec: Any) -> None:
    drawn = list(islice(sample_settings(sampler, seed=0, operators={"matvec": 1}, min_flops=0), 6))
    assert {type(op) for op in drawn} == {matvec}
    assert len({shape_of(op) for op in drawn}) == 6


def test_it_is_part_of_the_default_mix(matvec: Any) -> None:
    assert default_operators()["matvec"] == matvec.share == 0.01
    assert any(isinstance(op, matvec) for op in islice(sample_settings("uniform", seed=1), 500))


def test_the_prior_combines_its_typical_settings(matvec: Any) -> None:
    drawn = set(
        islice(sample_settings("prior", seed=0, operators={"matvec": 1}, min_flops=0, batches=[1]), 7)
    )
    assert {op.taps for op in drawn} <= {op.taps for op in matvec.typical()}
    assert drawn - {*matvec.typical()}


def test_its_settings_fit_into_the_zoos_table(matvec: Any, tmp_path: Path) -> None:
    assert read_zoo_table()  # the shipped table lacks the column `taps`
    rows = [ZooRow(matvec(rows=4, taps=9), 1, 1, ("net",), ())]
    write_zoo_table(rows, tmp_path / "table.csv")
    assert read_zoo_table(tmp_path / "table.csv") == rows


def test_its_record_comes_back(matvec: Any, tmp_path: Path) -> None:
    (task,) = sample_tasks("uniform", n=1, seed=0, operators={"matvec": 1})
    store = RecordStore(tmp_path)
    with store.writing():
        store.append_tasks([task_row(task)])
    (row,) = stored_rows(tmp_path)
    again: Task = stored_task(row)
    assert (again.operator, again.workload_hash) == ("matvec", task.workload_hash)
    settings = settings_from_dict(row.operator, json.loads(row.settings))
    assert isinstance(settings, matvec) and settings.to_dict() == task.settings
    assert to_task(settings).workload_hash == task.workload_hash
    assert argument_buffers(again.mod) == argument_buffers(task.mod)
