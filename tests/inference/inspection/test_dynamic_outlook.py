"""`foretune inspect` of a network with dynamic shapes, before it is tuned and as a library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from foretune.compiler.dynamic.symbols import DynamicShapeError
from foretune.inference.dynamic.outlook import DynamicOutlook
from foretune.inference.inspect import InspectConfig, InspectConfigError, run_dynamic
from foretune.inference.run.config import TuneConfig
from foretune.inference.search.config import OneShotConfig
from foretune.inference.tune import run as tune
from rich.console import Console
from tvm.support.cc import get_cc

LINEAR: dict[str, Any] = {"network": "torch.nn:Linear", "kwargs": {"in_features": 16, "out_features": 24}}


def inspected(folder: Path, **changes: Any) -> tuple[DynamicOutlook, str]:
    console = Console(record=True, width=120, quiet=False, file=(folder / "printed").open("w"))
    outlook = run_dynamic(InspectConfig(**{**LINEAR, "database": folder / "database", **changes}), console)
    return outlook, console.export_text()


@pytest.mark.skipif(get_cc() is None, reason="no C++ compiler")
def test_a_library_has_the_kernels_that_the_outlook_of_its_network_names(tmp_path: Path) -> None:
    shapes = {"inputs": [["n", 16]], "dims": {"n": "1:20"}}
    before, printed = inspected(tmp_path, **shapes, output=tmp_path / "outlook.json")
    assert before.symbols == {"n": (1, 20)} and before.tasks[0]["kind"] == "product"
    assert "Linear with n=1:20: 1 task of symbolic extents" in printed and "regret" in printed
    assert json.loads((tmp_path / "outlook.json").read_text())["symbols"] == {"n": [1, 20]}

    library = tmp_path / "net.so"
    settings = {**LINEAR, **shapes, "database": tmp_path / "database", "output": tmp_path / "report"}
    settings["search"] = OneShotConfig(measure=False, rounds=1, extra_rounds=0)
    tune(TuneConfig(**settings, export=library), Console(quiet=True))
    after, printed = inspected(tmp_path, network=str(library), kwargs=None)
    assert "input input: float32 [n, 16]" in printed and "output output_0: float32 [n, 24]" in printed
    assert json.loads(json.dumps(after.tasks)) == json.loads(json.dumps(list(before.tasks)))
    assert not after.beyond


def test_several_dynamic_networks_are_inspected_one_by_one(tmp_path: Path) -> None:
    with pytest.raises(InspectConfigError, match="inspect them one by one"):
        inspected(tmp_path, inputs=[[["n=1:4", 16]], [["n=1:8", 16]]])


def test_a_gpu_has_no_dynamic_shapes(tmp_path: Path) -> None:
    with pytest.raises(DynamicShapeError, match="target=cuda: dynamic shapes need a CPU"):
        inspected(tmp_path, inputs=[["n=1:4", 16]], target="nvidia/nvidia-a100")
