"""Comparison of contestants in processes of their own, on a network that doubles its input."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from foretune.compiler.host.warm import server_pids
from foretune.compiler.networks import Network, load_network, to_relax
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.deploy import comparison as subject
from foretune.inference.deploy import runners
from foretune.inference.deploy.comparison import Comparison, CompiledForm
from foretune.inference.deploy.compile import CompiledNetwork, compile_network
from foretune.inference.deploy.original import Original
from foretune.inference.deploy.rivals import registry
from foretune.inference.run.result import TUNED, UNTUNED, Contestant
from support import engines
from support.killed_workers import arguments_of
from support.paths import ROOT

ARGUMENTS = {"name_or_path": "support.networks:Double", "inputs": [[2, 3]], "batch": 1, "seed": 0}
TARGET = parse_target("llvm")
KINDS = {
    kind.__name__: kind
    for kind in vars(engines).values()
    if isinstance(kind, type) and issubclass(kind, engines.Doubling)
}


@pytest.fixture(scope="module")
def network() -> Network:
    return load_network(**ARGUMENTS)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def compiled(network: Network) -> CompiledNetwork:
    return compile_network(to_relax(network, TARGET), TARGET)


@pytest.fixture(autouse=True)
def known_rivals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The failing engines under their names, importable by other processes, too."""
    rivals = {name: f"support.engines:{name}" for name in KINDS}
    for module in (registry, subject):
        monkeypatch.setattr(module, "RIVALS", {**registry.RIVALS, **rivals})
    paths = [str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    yield


def processes() -> int:
    """Processes of contestants: one that is late must not go on beside the timing of the others."""
    children = psutil.Process().children(recursive=True)
    servers = server_pids()
    running = [arguments_of(child) for child in children if child.pid not in servers]
    return sum(any("deploy.rivals" in word for word in words) for words in running)


def compare(
    network: Network,
    compiled: CompiledNetwork,
    *rivals: str,
    forms: tuple[str, ...] = (TUNED,),
    announced: tuple[str, ...] | None = None,
    **changes,
) -> tuple[dict[str, Contestant], dict[str, str]]:
    """Rows by name, and the rivals that were left out."""
    ours = [CompiledForm(name, compiled, 40.0) for name in forms]
    arguments = {"limit_s": 10.0, **changes}
    with Comparison(network, ARGUMENTS, announced or forms, rivals, **arguments) as comparison:
        comparison.start()
        comparison.enter(ours)
        comparison.prepare(Original(network).compare)
        rows = comparison.time(2)
        left_out = comparison.left_out
        assert processes() == sum(row.own_process and not row.error for row in rows)
    assert [row.name for row in rows[: len(forms)]] == list(forms)
    assert processes() == 0
    return {row.name: row for row in rows}, left_out


def test_a_form_may_start_before_the_others(network: Network) -> None:
    with Comparison(network, ARGUMENTS, (TUNED, UNTUNED), ()) as comparison:
        started = []
        for forms in ([TUNED], [TUNED], [TUNED, UNTUNED]):
            comparison.start(forms)
            started.append(list(comparison._libraries))
    assert started == [[TUNED], [TUNED], [TUNED, UNTUNED]]


def test_a_form_may_be_announced_and_not_enter(network: Network, compiled: CompiledNetwork) -> None:
    pytest.importorskip("onnxruntime")
    rows, left_out = compare(network, compiled, "onnxruntime", announced=(TUNED, UNTUNED), limit_s=120.0)
    assert not left_out and {name: row.error for name, row in rows.items()} == {TUNED: "", "ONNX Runtime": ""}


@pytest.mark.slow
def test_a_failing_rival_is_a_row_and_the_comparison_goes_on(
    network: Network, compiled: CompiledNetwork
) -> None:
    rows, left_out = compare(network, compiled, *KINDS, forms=(TUNED, UNTUNED))
    assert left_out == {"absent": "no_such_package is not installed (pip install 'foretune[rivals]')"}
    assert {name: row.error for name, row in rows.items()} == {
        TUNED: "",
        UNTUNED: "",
        "doubling": "",
        "tripling": rows["tripling"].error,
        "wrong shape": "the outputs have shapes [[7]], and the original's [[2, 3]]",
        "dying": "killed by signal 6",
        "hanging": "no answer within 10 s",
        "dying later": "exited with code 3",
        "raising": "no such operator: doubling",
    }
    assert rows["tripling"].error.startswith("other outputs: output 0 differs from the original's by up to")
    for name in (TUNED, UNTUNED, "doubling"):
        row = rows[name]
        assert row.own_process and len(row.samples_s) >= 1 and row.min_s == min(row.samples_s)
        assert row.max_abs_difference == 0.0
        assert row.peak_mb is not None and 10 < row.peak_mb < 1000
    for name in ("tripling", "wrong shape", "dying", "hanging", "raising"):
        assert rows[name].samples_s == [] and rows[name].median_s is None
    tuned, doubling = rows[TUNED], rows["doubling"]
    assert (
        tuned.ready_s is not None and 40.0 < tuned.ready_s < 100.0
    )  # export and load after what went before
    assert doubling.ready_s is not None and doubling.ready_s < 1.0
    assert tuned.version.startswith("apache-tvm ") and doubling.version == f"numpy {np.__version__}"


def test_a_rival_may_be_as_far_as_the_rounding_of_the_original(
    network: Network, compiled: CompiledNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Network, "rounding_errors", lambda *_: [100.0])
    monkeypatch.setattr(runners, "SHARES_IMPORTS", False)  # as users have it
    rows, _ = compare(network, compiled, "Tripling")
    assert rows["tripling"].error == "" and rows["tripling"].max_abs_difference > 0.1


@pytest.mark.parametrize(("engine", "torch"), [(registry.LIBRARY, False), (registry.RIVALS["eager"], True)])
def test_a_library_is_timed_without_torch(
    engine: str, torch: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[runners.WorkerSpec] = []
    monkeypatch.setattr(runners, "WorkerProcess", started.append)
    runners.ProcessRunner(
        "one", engine, threads=1, inputs=tmp_path / "inputs.npz", folder=tmp_path / "one", limit_s=1.0
    )
    assert [spec.torch for spec in started] == [torch]


def test_the_rounding_error_is_found_once_and_only_for_outputs_that_disagree(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[float] = []
    monkeypatch.setattr(Network, "rounding_errors", lambda *_: found.append(0.5) or [0.5])
    (reference,) = network.reference_outputs()
    check = Original(network).compare
    assert check([reference]).agrees and found == []
    assert check([reference + 1.4]).agrees and not check([reference + 1.6]).agrees  # three times 0.5
    assert found == [0.5]


def test_without_a_compiler_the_tuned_network_is_timed_in_this_process(
    network: Network, compiled: CompiledNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "get_cc", lambda: None)
    rows, _ = compare(network, compiled)
    assert not rows[TUNED].own_process and rows[TUNED].samples_s and rows[TUNED].dtype == "float32"
    assert rows[TUNED].max_abs_difference == 0.0 and rows[TUNED].peak_mb is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"network": Network("file", (), onnx_path=Path("network.onnx"))}, "the network is an ONNX file"),
        ({"arguments": {"kwargs": {"activation": np.float32}}}, "not JSON values"),
        ({"device": "metal"}, "does not run on metal"),
    ],
)
def test_a_rival_that_cannot_take_part_is_left_out(network: Network, changes: dict, reason: str) -> None:
    given = {"network": network, "arguments": {}, **changes}
    comparison = Comparison(given.pop("network"), given.pop("arguments"), [], ["eager"], **given)
    assert reason in comparison.left_out["PyTorch eager"]
