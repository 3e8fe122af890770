"""A run for a CPU that is not here."""

from __future__ import annotations

from pathlib import Path

import pytest
from foretune.compiler.tvm_compat import OLDER_CPU
from foretune.dataset.measure import ExecutorConfigError
from foretune.inference.tune import run
from support.template_runs import template_run

pytestmark = pytest.mark.cpu


def test_a_target_with_instructions_that_this_cpu_lacks_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OLDER_CPU, "haswell")
    target = "target={kind: llvm, mcpu: x86-64-v4, num-cores: 1}"
    with pytest.raises(ExecutorConfigError, match=r"target=x86-64-v4: .* lacks avx512bw.*llvm"):
        run(template_run(tmp_path, target))
    assert not (tmp_path / "database").exists()
