"""A network of dynamic shapes from `foretune tune` to its library, on this CPU."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import foretune
import numpy as np
import pytest
import torch
from foretune.compiler.dynamic.symbols import DynamicShapeError
from foretune.compiler.networks import load_network
from foretune.compiler.networks.inputs import BadInputShapeError
from foretune.inference.deploy.arrays import InputError
from foretune.inference.deploy.load import LoadedNetwork
from foretune.inference.dynamic import originals
from foretune.inference.dynamic import run as subject
from foretune.inference.dynamic.families import PLAIN
from foretune.inference.dynamic.result import FILE, DynamicResult
from foretune.inference.dynamic.settings import check_dynamic
from foretune.inference.run.config import TuneConfig
from foretune.inference.search.config import OneShotConfig
from foretune.inference.tune import run
from rich.console import Console
from support.paths import ROOT
from support.tuning import PREDICTED
from tvm.support.cc import get_cc

pytestmark = pytest.mark.skipif(get_cc() is None, reason="no C++ compiler")

NETWORK = "support.networks:CausalBlock"
INPUTS = [["b=1:3", "n=1:33", 16]]


def config(folder: Path, **changed: Any) -> TuneConfig:
    return TuneConfig(
        network=NETWORK,
        output=folder / "report",
        database=folder / "database",
        inputs=INPUTS,
        export=folder / "block.so",
        search=PREDICTED,
        **changed,
    )


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[DynamicResult, Path]:
    folder = tmp_path_factory.mktemp("dynamic")
    settings = config(folder, rivals=["eager"], timing_repeats=1, rival_limit_s=600.0)
    with pytest.MonkeyPatch.context() as patch:  # the process of a rival builds the network, too
        paths = [str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]
        patch.setenv("PYTHONPATH", os.pathsep.join(paths))
        result = run(settings, Console(quiet=True))
    assert isinstance(result, DynamicResult)
    return result, folder


@pytest.fixture(scope="module")
def loaded(tuned: tuple[DynamicResult, Path]) -> LoadedNetwork:
    return foretune.load(tuned[1] / "block.so")


def test_outputs_are_compared_at_several_sizes(tuned: tuple[DynamicResult, Path]) -> None:
    result, folder = tuned
    assert result.symbols == {"b": (1, 3), "n": (1, 33)}
    compared = [(one.sizes["b"], one.sizes["n"]) for one in result.sizes]
    assert {(1, 1), (3, 33), (1, 33), (3, 1)} <= set(compared) and len(compared) >= 8
    assert all(one.max_abs_difference <= one.tolerance for one in result.sizes)
    assert {task["kind"] for task in result.tasks} >= {"product", "rows"}
    assert json.loads((folder / "report" / FILE).read_text())["symbols"] == {"b": [1, 3], "n": [1, 33]}


def test_rivals_are_timed_at_three_sizes(tuned: tuple[DynamicResult, Path]) -> None:
    result, folder = tuned
    assert {one.name: one.error for one in result.rivals.engines} == {"tuned TVM": "", "PyTorch eager": ""}
    sizes = [{"b": 1, "n": 1}, {"b": 2, "n": 6}, {"b": 3, "n": 33}]
    for name in ("tuned TVM", "PyTorch eager"):
        rows = [one for one in result.rivals.timings if one.name == name]
        assert [one.sizes for one in rows] == sizes
        assert all(one.latency_s is not None and one.latency_s > 0 and not one.error for one in rows)
    assert len(json.loads((folder / "report" / FILE).read_text())["rivals"]["timings"]) == 6


def test_the_library_runs_every_size_in_range(loaded: LoadedNetwork) -> None:
    module = load_network(NETWORK, inputs=[[1, 2, 16]]).module
    assert module is not None
    rng = np.random.default_rng(0)
    for b in (1, 2, 3):
        for n in range(1, 34):
            x = torch.from_numpy(rng.standard_normal((b, n, 16), np.float32))
            with torch.inference_mode():
                expected = module(x)
            torch.testing.assert_close(loaded(x), expected, rtol=1e-4, atol=1e-5)


def test_the_library_tells_and_keeps_its_ranges(loaded: LoadedNetwork) -> None:
    assert "x: float32 [b, n, 16]" in repr(loaded) and "b=1:3, n=1:33" in repr(loaded)
    for shape, message in (
        ((1, 34, 16), "input x: dimension 1 is 34, and n is 1 to 33"),
        ((4, 5, 16), "input x: dimension 0 is 4, and b is 1 to 3"),
        ((1, 0, 16), "dimension 1 is 0"),
        ((1, 5, 15), r"float32 \[1, 5, 15\] given, float32 \[b, n, 16\] expected"),
    ):
        with pytest.raises(InputError, match=message):
            loaded(np.zeros(shape, np.float32))


def test_a_wrong_kernel_gives_way_to_plain_schedules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    real = subject.DynamicRun._compared

    def wrong_first(self: Any, *arguments: Any) -> Any:
        compared.append("again" if compared else "first")
        if compared == ["first"]:
            raise subject.DynamicOutputError("network=CausalBlock at n=1: output 0 differs")
        return real(self, *arguments)

    monkeypatch.setattr(subject.DynamicRun, "_compared", wrong_first)
    console = Console(record=True, quiet=True)
    result = run(replace(config(tmp_path), export=None), console)
    assert isinstance(result, DynamicResult)
    assert compared == ["first", "again"] and {task["kind"] for task in result.tasks} == {PLAIN}
    assert len(result.plain) == len(result.tasks)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"anytime": True, "search": OneShotConfig()},
            "anytime=true: dynamic shapes do not support it yet; leave it out",
        ),
        ({"latency_target_s": 1.0}, "latency_target_s=1.0: dynamic shapes do not support it yet"),
        ({"check_inputs": Path("x.npz")}, "check_inputs=x.npz: dynamic shapes do not support it yet"),
        (
            {"network": ["resnet18", "resnet50"], "export": None},
            "several networks or inputs: dynamic shapes do not",
        ),
    ],
)
def test_settings_without_support_are_errors(changed: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DynamicShapeError, match=message):
        check_dynamic(replace(config(tmp_path), **changed))


def test_inputs_that_do_not_fit_together_name_their_symbols(tmp_path: Path) -> None:
    distance, inputs = "torch.nn:PairwiseDistance", [["n=1:9", 4], ["m=1:9", 4]]
    settings = replace(config(tmp_path), network=distance, inputs=inputs)
    with pytest.raises(
        BadInputShapeError, match=r"here for n=7, m=8; give extents that must be equal the same"
    ):
        run(settings, Console(quiet=True))


def test_sizes_that_do_not_fit_into_memory_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_many(*_: Any) -> Any:
        raise MemoryError

    settings = replace(config(tmp_path), network="torch.nn:ReLU", inputs=[["n=1:999999999"]])
    monkeypatch.setattr(originals, "example_inputs", too_many)
    with pytest.raises(
        DynamicShapeError, match=r"at n=1: its inputs do not fit into memory; narrow the range"
    ):
        run(settings, Console(quiet=True))


def test_only_the_largest_sizes_are_compared_in_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    briefly: dict[tuple[int, ...], bool] = {}
    real = originals.Original

    def original(network: Any, dtype: str, *, once: bool) -> Any:
        briefly[network.inputs[0].shape] = once
        return real(network, dtype, once=once)

    monkeypatch.setattr(originals, "Original", original)
    settings = replace(
        config(tmp_path), network="torch.nn:ReLU", inputs=[["b=1:3", "n=1:33"]], beyond="allow", export=None
    )
    run(settings, Console(quiet=True))
    assert {(1, 1), (1, 33), (3, 1), (3, 33), (4, 34), (1, 67)} <= set(briefly)
    assert {shape for shape, once in briefly.items() if once} == {(3, 33), (4, 34)}


@pytest.mark.parametrize(
    ("first_s", "run_s", "median_s", "runs"),
    [(9.0, 0.01, 9.0, 0), (0.1, 0.01, 0.01, 5), (0.15, 0.15, 0.15, 2)],
)
def test_few_runs_of_a_slow_network_are_timed(
    first_s: float, run_s: float, median_s: float, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(subject.time, "perf_counter", lambda: clock[0])
    done: list[float] = []

    def call() -> None:
        clock[0] += run_s
        done.append(run_s)

    assert subject._median_s(call, first_s) == pytest.approx(median_s)
    assert len(done) == runs
