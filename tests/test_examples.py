"""The scripts of examples/ run and print their results."""

from __future__ import annotations

import logging
import runpy

import pytest
from foretune.compiler.networks import load_network, to_relax
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.deploy.compile import compile_network
from support.in_this_process import features_in_this_process
from support.paths import ROOT
from support.torchless import without_torch
from tvm.support.cc import get_cc

SAYS = {
    "cost_model_in_metaschedule": "2 programs measured; the fastest takes",
    "dynamic_shapes": "100 (100, 16)",
    "generate_and_train": "trained 2 epochs; use it with search.strategy.checkpoint=",
    "run_exported_network": "(x: float32 [1, 8, 6, 6])",
    "tune_your_own_tasks": "compiled the fastest program of",
}
SMALLER = {"cost_model_in_metaschedule": {"trials": 2, "builders": 1}}


ELSEWHERE = {"decode_with_cache"}
"""Examples that tests/test_decoding.py tries."""


def test_every_example_is_tried():
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == {*SAYS, *ELSEWHERE}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SAYS.keys() - {"run_exported_network"}))
def test_examples_run(name, tmp_path, capsys, monkeypatch):
    # MetaSchedule cannot name the handlers that other tests of this process have given its logger.
    monkeypatch.setattr(logging.getLogger("tvm.s_tir.meta_schedule"), "handlers", [])
    if name in SMALLER:  # processes of MetaSchedule's
        monkeypatch.setenv("PYTHONPATH", without_torch()["PYTHONPATH"])
    script = runpy.run_path(str(ROOT / "examples" / f"{name}.py"))
    with features_in_this_process():
        script["main"](tmp_path, **SMALLER.get(name, {}))
    assert SAYS[name] in capsys.readouterr().out


@pytest.mark.skipif(get_cc() is None, reason="no C++ compiler")
def test_the_example_of_an_exported_network_runs(tmp_path, capsys):
    network, target = load_network("support.networks:Residual", inputs=[[1, 8, 6, 6]]), parse_target("llvm")
    compile_network(to_relax(network, target), target).export(tmp_path / "network.so")
    script = runpy.run_path(str(ROOT / "examples" / "run_exported_network.py"))
    script["main"](tmp_path / "network.so", calls=3)
    told = capsys.readouterr().out
    assert SAYS["run_exported_network"] in told and "one call takes" in told
