"""Networks tuned by templates alone, in bfloat16 where this CPU has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foretune.configuration import from_hydra
from foretune.dataset.templates.instructions import MissingInstructionError
from foretune.inference.config import OneShotConfig, OneShotConfigError
from foretune.inference.deploy.load import load
from foretune.inference.report.contestants import contestant_rows
from foretune.inference.report.facts import facts
from foretune.inference.result_file import load_result
from foretune.inference.tune import run
from foretune.inference.tune_config import TuneConfig
from hydra import compose, initialize_config_module
from support.cpus import multiplies
from tvm.support.cc import get_cc

pytestmark = pytest.mark.cpu


def settings(folder: Path, *overrides: str) -> TuneConfig:
    with initialize_config_module("foretune.conf", version_base="1.3"):
        return from_hydra(
            compose(
                "tune",
                [
                    *("network=support.networks:Convolutions", "inputs=[[1,64,8,8]]", "checkpoint=null"),
                    *("search=templates", "search.top_k=2", "search.templates=2", "search.finalists=0"),
                    *("timing_repeats=1", "measure.repeats=2", "measure.groups=1", "search.processes=0"),
                    *(f"output={folder / 'report'}", f"database={folder / 'database'}", *overrides),
                ],
            ),
            TuneConfig,
        )


@pytest.mark.slow
@pytest.mark.skipif(get_cc() is None, reason="no C++ compiler")
@multiplies("bfloat16")
def test_a_network_is_tuned_in_bfloat16_by_templates_alone(tmp_path: Path) -> None:
    library = tmp_path / "network.so"
    result = run(
        settings(
            tmp_path,
            *("lowering.dtype=bfloat16", f"export={library}", "rivals=[]"),
        )
    )
    products = [task for task in result.tasks if task.operator == "conv2d"]
    assert products and all(task.tuned_latency_s is not None for task in products)
    assert all(task.candidates_drafted == 0 and task.candidates_measured <= 2 for task in result.tasks)
    assert result.outputs_match and result.agreement is not None and result.agreement.top_1 > 0.9
    assert {one.dtype for one in result.contestants} == {"bfloat16"}
    assert load_result(tmp_path / "report" / "report.json").agreement == result.agreement
    assert any(fact.label == "Top-1 agreement in bfloat16" for fact in facts(result))
    assert all("in bfloat16" in row[-1] for row in contestant_rows(result))
    network = load(library)
    (spec,) = network.inputs
    assert (spec.dtype, network.outputs[0].dtype) == ("float32", "float32")
    assert np.isfinite(network(np.ones(spec.shape, np.float32))).all()


def test_a_target_without_bfloat16_ends_a_run_before_its_search(tmp_path: Path) -> None:
    target = "target={kind: llvm, mcpu: x86-64-v3, num-cores: 1}"
    with pytest.raises(MissingInstructionError, match=r"target=x86-64-v3.*avx512bf16"):
        run(settings(tmp_path, "lowering.dtype=bfloat16", target))
    assert not (tmp_path / "database").exists()


@pytest.mark.parametrize("others", [{}, {"rounds": 1, "reuse": "paper"}])
def test_templates_alone_have_one_round(others: dict[str, Any]) -> None:
    with pytest.raises(OneShotConfigError, match=r"search\.propose=false.*search=templates"):
        OneShotConfig(propose=False, **others)
