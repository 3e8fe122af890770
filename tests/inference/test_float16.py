"""A network tuned in float16 and as on an older CPU, end to end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from foretune.compiler.targets import MissingInstructionError, traits
from foretune.compiler.tvm_compat import OLDER_CPU
from foretune.inference.deploy.load import load
from foretune.inference.tune import run
from rich.console import Console
from support.cpus import HERE
from support.template_runs import UNTUNED, template_run
from tvm.support.cc import get_cc


@pytest.mark.slow
@pytest.mark.skipif(get_cc() is None, reason="no C++ compiler")
@pytest.mark.skipif(not traits(HERE).converts("float16"), reason="this CPU lacks f16c")
def test_a_network_is_tuned_in_float16_for_an_older_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OLDER_CPU, "haswell")
    library, console = tmp_path / "network.so", Console(record=True, width=200)
    words = ("lowering.dtype=float16", f"export={library}", "rivals=[]")
    result = run(template_run(tmp_path, *words, *UNTUNED), console)
    assert "FORETUNE_CPU=haswell: programs use the instruction sets of haswell only" in console.export_text()
    assert result.hardware.endswith(" as haswell") and '"mcpu":"haswell"' in result.target
    assert result.outputs_match and result.agreement is not None and result.agreement.top_1 > 0.9
    assert (result.agreement.dtype, result.agreement.rival) == ("float16", "PyTorch")
    assert {one.dtype for one in result.contestants} == {"float16"}
    network = load(library)
    (spec,) = network.inputs
    assert (spec.dtype, network.outputs[0].dtype) == ("float32", "float32")
    assert np.isfinite(network(np.ones(spec.shape, np.float32))).all()


def test_a_target_without_float16_ends_a_run_before_its_search(tmp_path: Path) -> None:
    target = "target={kind: llvm, mcpu: x86-64-v2, num-cores: 1}"
    with pytest.raises(MissingInstructionError, match=r"target=x86-64-v2.*float16.*f16c"):
        run(template_run(tmp_path, "lowering.dtype=float16", "network=no_such_network", target))
    assert not (tmp_path / "database").exists()
