"""Networks tuned by templates alone, in bfloat16 where this CPU has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foretune.compiler.targets import MissingInstructionError
from foretune.compiler.tvm_compat import OLDER_CPU
from foretune.inference.deploy.load import load
from foretune.inference.report.contestants import contestants_table
from foretune.inference.report.facts import facts
from foretune.inference.run.result_file import load_result
from foretune.inference.search.config import OneShotConfig, OneShotConfigError
from foretune.inference.tune import run
from support.cpus import multiplies
from support.template_runs import UNTUNED, template_run
from tvm.support.cc import get_cc


@pytest.mark.slow
@pytest.mark.skipif(get_cc() is None, reason="no C++ compiler")
@multiplies("bfloat16")
def test_a_network_is_tuned_in_bfloat16_by_templates_alone(tmp_path: Path) -> None:
    library = tmp_path / "network.so"
    result = run(
        template_run(
            tmp_path,
            *("lowering.dtype=bfloat16", f"export={library}", "rivals=[]", *UNTUNED),
        )
    )
    products = [task for task in result.tasks if task.operator == "conv2d"]
    assert products and all(task.tuned_latency_s is not None for task in products)
    assert all(task.candidates_drafted == 0 and task.candidates_measured <= 2 for task in result.tasks)
    assert result.outputs_match and result.agreement is not None and result.agreement.top_1 > 0.9
    assert {one.dtype for one in result.contestants} == {"bfloat16"}
    assert load_result(tmp_path / "report" / "report.json").agreement == result.agreement
    assert any(fact.label == "Top-1 agreement in bfloat16" for fact in facts(result))
    assert all("in bfloat16" in row[-1] for row in contestants_table(result).rows)
    network = load(library)
    (spec,) = network.inputs
    assert (spec.dtype, network.outputs[0].dtype) == ("float32", "float32")
    assert np.isfinite(network(np.ones(spec.shape, np.float32))).all()


def test_a_target_without_bfloat16_ends_a_run_before_its_search(tmp_path: Path) -> None:
    target = "target={kind: llvm, mcpu: x86-64-v3, num-cores: 1}"
    with pytest.raises(MissingInstructionError, match=r"target=x86-64-v3.*avx512bf16"):
        run(template_run(tmp_path, "lowering.dtype=bfloat16", target))
    assert not (tmp_path / "database").exists()


@pytest.mark.parametrize(("dtype", "cpu"), [("bfloat16", "haswell"), ("int8", "ivybridge")])
def test_an_older_cpu_ends_a_run_before_the_network_is_read(
    dtype: str, cpu: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OLDER_CPU, cpu)
    with pytest.raises(MissingInstructionError, match=rf"target={cpu}: no multiply-add instruction for"):
        run(template_run(tmp_path, f"lowering.dtype={dtype}", "network=no_such_network"))
    assert not (tmp_path / "database").exists()


@pytest.mark.parametrize("others", [{}, {"rounds": 1, "reuse": "paper"}])
def test_templates_alone_have_one_round(others: dict[str, Any]) -> None:
    with pytest.raises(OneShotConfigError, match=r"search\.propose=false.*search=templates"):
        OneShotConfig(propose=False, **others)
