"""Runs as on an older CPU, and for a CPU that is not here."""

from __future__ import annotations

from pathlib import Path

import pytest
from foretune.compiler.tvm_compat import OLDER_CPU
from foretune.dataset.measure import ExecutorConfigError
from foretune.inference.tune import run
from rich.console import Console
from support.template_runs import template_run

pytestmark = pytest.mark.cpu


def test_a_run_for_an_older_cpu_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OLDER_CPU, "haswell")
    console = Console(record=True, width=200)
    result = run(template_run(tmp_path, "rivals=[]"), console)
    assert "FORETUNE_CPU=haswell: programs use the instruction sets of haswell only" in console.export_text()
    assert result.hardware.endswith(" as haswell") and '"mcpu":"haswell"' in result.target
    assert result.outputs_match


def test_a_target_with_instructions_that_this_cpu_lacks_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OLDER_CPU, "haswell")
    target = "target={kind: llvm, mcpu: x86-64-v4, num-cores: 1}"
    with pytest.raises(ExecutorConfigError, match=r"target=x86-64-v4: .* lacks avx512bw.*llvm"):
        run(template_run(tmp_path, target))
    assert not (tmp_path / "database").exists()
