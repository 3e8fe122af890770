"""A run whose library can be used early, with real programs."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foretune.compiler.networks import load_network
from foretune.inference.anytime import library as subject
from foretune.inference.anytime.rule import ExchangeRule
from foretune.inference.deploy import comparison, trial
from foretune.inference.deploy.compile import CompiledNetwork
from foretune.inference.deploy.load import load
from foretune.inference.run.config import TuneConfig
from foretune.inference.run.result_file import load_result
from foretune.inference.search.config import OneShotConfig
from foretune.inference.tune import run
from rich.console import Console
from support.tuning import ONE_RUN
from tvm.support.cc import get_cc

NETWORK: dict[str, Any] = {
    "network": "torch.nn:Linear",
    "inputs": [[8, 64]],
    "kwargs": {"in_features": 64, "out_features": 32},
}
SEARCH = OneShotConfig(
    {"name": "evolutionary", "population_size": 8, "generations": 0},
    rounds=2,
    top_k=2,
    templates=1,
    replay_factor=1,
    surrogate=False,
    finalists=0,
    processes=0,
)


@pytest.mark.slow
@pytest.mark.skipif(get_cc() is None, reason="no C++ compiler")
def test_each_library_of_a_run_can_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, printed = tmp_path / "net.so", StringIO()
    network = load_network(NETWORK["network"], inputs=NETWORK["inputs"], kwargs=NETWORK["kwargs"])
    (expected,) = network.reference_outputs()
    seen: list[Any] = []
    falling_s = iter([0.003, 0.002, 0.001])
    export, timed_s = CompiledNetwork.export, subject._timed_s

    def exported(compiled: CompiledNetwork, library: Path) -> None:
        export(compiled, library)
        if library == path:
            seen.append(load(path)(*network.inputs))

    def timed(*arguments: Any) -> float:
        assert timed_s(*arguments) > 0
        return next(falling_s)

    monkeypatch.setattr(CompiledNetwork, "export", exported)
    monkeypatch.setattr(subject, "_timed_s", timed)
    monkeypatch.setattr(comparison, "get_cc", lambda: None)  # which would time it in another process
    monkeypatch.setattr(trial, "time_in_fresh_process", lambda *_: [])
    rule = ExchangeRule(least_gain=-1e9, most_cost=float("inf"))  # after each round
    monkeypatch.setattr(subject, "ExchangeRule", lambda: rule)
    config = TuneConfig(
        **NETWORK,
        output=tmp_path / "report",
        database=tmp_path / "database",
        checkpoint=None,
        export=path,
        anytime=True,
        rivals=[],
        timing_repeats=1,
        untuned_limit_s=1e-9,
        workers=1,
        measure=ONE_RUN,
        search=SEARCH,
    )
    result = run(config, Console(file=printed, width=200))
    assert load_result(tmp_path / "report" / "report.json").libraries == result.libraries
    assert len(seen) == len(result.libraries) == 3, printed.getvalue()
    assert result.libraries[0].latency_s == 0.003 and result.libraries[-1].latency_s is None
    times_s = [one.after_s for one in result.libraries]
    assert times_s == sorted(times_s) and times_s[0] < result.curve[-1][0]
    for found in seen:
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    told = printed.getvalue()
    assert "s; it can be used now; better ones follow" in told and "instead of 3.00 ms" in told
