"""Suites of PyTorch modules and networks: their lists, their command, and a sample of cases."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from foretune.compiler.networks import Network
from foretune.compiler.networks.importing.decomposing.errors import ConversionError
from foretune.compiler.networks.importing.torch_import import export, to_relax

from benchmarks.coverage import conversion_check, suite, torch_modules
from benchmarks.coverage.cases import Case, Subject, WrongOutputError
from benchmarks.coverage.networks import NETWORKS as SWEPT
from benchmarks.coverage.small_networks.catalogue import NETWORKS
from benchmarks.coverage.torch_modules import catalogue
from benchmarks.coverage.torch_modules.making import module_of

CONVERTED = (
    *("indexing/separated_tensors", "indexing/index_copy", "scatter/scatter_mean", "reductions/var_mean"),
    *("pointwise/digamma", "activations/SELU", "normalisation/GroupNorm_plain", "resizing/trilinear"),
    *("convolution/ConvTranspose3d", "pooling/MaxPool2d_positions", "attention/rotary_as_complex"),
    *("sorting/sort_stable", "types/half_Linear", "fourier/rfft", "shapes/cat_with_empty"),
)
REFUSED = {
    "indexing/nonzero": "nonzero.default makes a tensor whose shape depends on data",
    "patterns/buffer_that_changes": "the network changes its buffer count",
    "patterns/random_noise": "randn_like.default draws random numbers",
    "fourier/complex_output": "an output is complex",
}


def test_the_lists_are_broad() -> None:
    cases = catalogue.cases()
    names = [case.name for case in cases]
    assert len(cases) >= 300 and max(Counter(names).values()) == 1
    assert {case.family for case in cases} == set(catalogue.FAMILIES.values())
    assert len(NETWORKS) >= 60 and not NETWORKS.keys() & SWEPT.keys()


def _program(name: str) -> torch.export.ExportedProgram:
    subject = catalogue.subject(*name.split("/"))
    assert subject.network.module is not None
    return export(subject.network.module, subject.network.torch_inputs())


@pytest.mark.parametrize("name", CONVERTED)
def test_modules_of_the_suite_are_converted(name: str) -> None:
    assert "main" in {var.name_hint for var in to_relax(_program(name)).get_global_vars()}


@pytest.mark.parametrize("name", REFUSED)
def test_modules_of_the_suite_are_refused_by_name(name: str) -> None:
    with pytest.raises(ConversionError, match=REFUSED[name]):
        to_relax(_program(name))


def test_a_module_has_the_same_weights_in_each_process() -> None:
    entry = catalogue.table("algebra")["Linear"]
    first, second = (module_of(entry).state_dict()["weight"] for _ in range(2))
    assert torch.equal(first, second) and not module_of(entry).training


class Double(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def test_a_wrong_result_is_found() -> None:
    x = np.arange(3, dtype=np.float32)
    network = Network("double", (x,), Double())
    conversion_check.check_operator(Subject(network, [x * 2]))
    with pytest.raises(WrongOutputError, match="1 of 3 elements differ"):
        conversion_check.check_operator(Subject(network, [np.array([0, 2, 5], np.float32)]))


def test_a_stopped_suite_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def run(cases: Any, check: Any, **_: Any) -> Any:
        for case in cases:
            ran.append(case.name)
            passed = case.name != "b"
            yield {
                "case": case.name,
                "family": "letters",
                "outcome": "passed" if passed else "refused",
                "cause": "" if passed else "no b",
                "seconds": 1.0,
            }

    monkeypatch.setattr(suite, "run_cases", run)
    monkeypatch.setattr(suite, "this_machine", lambda: {"name": "machine", "vector_bits": 256})
    cases = [Case(name, "letters", lambda: None) for name in "abcd"]  # type: ignore[arg-type, return-value]
    folders = ["--runs-in", str(tmp_path / "runs"), "--out", str(tmp_path / "results")]

    def result(*words: str) -> dict[str, Any]:
        ran.clear()
        return suite.run_suite(torch_modules, "letters", cases, print, limit_s=1, words=[*words, *folders])

    assert result("--most", "2")["pending"] == ["c", "d"] and ran == ["a", "b"]
    whole = result()
    assert ran == ["c", "d"] and (whole["tried"], whole["passed"], whole["refused"]) == (4, 3, 1)
    result("--failed")
    assert ran == ["b"]
    assert result("--sample", "2")["tried"] == 2 and ran == []
