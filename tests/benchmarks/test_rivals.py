"""Rows of tuned networks and their rivals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from foretune.compiler.networks.known import ZOO
from foretune.inference.deploy.rivals.registry import RIVALS
from foretune.inference.run.network_profile import CallTime, NetworkProfile
from foretune.inference.run.result import EAGER, TUNED, UNTUNED, Contestant
from foretune.inference.run.result_file import result_to_json
from support.results import make_contestant, make_result

from benchmarks import common
from benchmarks.rivals.__main__ import NETWORKS, arguments_of, describe, merged
from benchmarks.rivals.runs import of_report, share_of_peak
from benchmarks.tables import speed
from benchmarks.tables.declare import names
from benchmarks.tables.reading import Result, Results


def report(**changes: Any) -> dict[str, Any]:
    contestants = [
        make_contestant(TUNED, 0.006, ready_s=70.0, version="apache-tvm 0.27"),
        make_contestant(UNTUNED, 0.030),
        make_contestant(EAGER, 0.012, version="torch 2.13"),
        make_contestant("ONNX Runtime", 0.0066),
        make_contestant("OpenVINO", 0.003, disturbed=True),
    ]
    versions = {"foretune": "0.1.0"}
    profile = NetworkProfile(0.006, [CallTime("conv", 2, 0.004)])
    values = {"contestants": contestants, "versions": versions, "peak_gflops": 200.0, **changes}
    return result_to_json(make_result(network_profile=profile, **values))


def test_rows_are_the_tuned_network_and_its_rivals() -> None:
    second = [make_contestant(TUNED, 0.005, ready_s=1.0), make_contestant(EAGER, 0.011)]
    run = of_report("resnet18", report(), report(contestants=second))
    tuned, eager = run["rows"]
    # The second run timed again what the first had tuned.
    assert (tuned["rival"], tuned["latency_s"], tuned["ready_s"]) == ("foretune", 0.005, 70.0)
    assert (eager["rival"], eager["latency_s"], eager["dtype"], eager["batch"]) == (
        "eager",
        0.011,
        "float32",
        1,
    )
    assert tuned["version"] == "foretune 0.1.0, "
    assert run["calls"] == {"run_s": 0.006, "between_calls_s": pytest.approx(0.002)}
    keys = {"network", "dtype", "batch", "rival", "version", "latency_s", "ready_s", "peak_mb"}
    assert set(tuned) == keys | {"disturbed", "error"}


def test_a_share_of_the_peak_is_operations_a_second_over_it() -> None:
    """2 calls of 0.2 GFLOP in 2 ms each and one of 0.001 GFLOP in 1 ms: 0.401 GFLOP in 5 ms."""
    tasks = report()["tasks"]
    found = of_report("a", report(), report())["peak"]
    assert found["tasks_s"] == pytest.approx(0.005) and found["gflop"] == pytest.approx(0.401)
    assert found["share_of_peak"] == pytest.approx(80.2 / 200)
    conv, dense = found["longest"]
    assert (conv["share_of_time"], conv["share_of_peak"]) == (pytest.approx(0.8), pytest.approx(0.5))
    assert dense["share_of_peak"] == pytest.approx(1.0 / 200)
    untuned = share_of_peak([{**tasks[0], "tuned_latency_s": None, "untuned_latency_s": 0.1}], 200.0)
    assert untuned["tasks_s"] == pytest.approx(0.1)
    beaten = {**tasks[0], "weight": 0}
    assert share_of_peak([*tasks, beaten], 200.0) == share_of_peak(tasks, 200.0)
    nothing = {"tuned_latency_s": None, "untuned_latency_s": None}
    assert share_of_peak([{**tasks[0], **nothing}], 200.0)["share_of_peak"] is None


def test_networks_on_a_gpu_have_no_share_of_a_peak(tmp_path: Path) -> None:
    """A GPU's peak is not measured; the networks have a table of their own."""
    run = of_report("resnet18", report(peak_gflops=None), report(peak_gflops=None))
    assert run["peak"]["share_of_peak"] is None and run["peak"]["longest"][0]["share_of_peak"] is None
    values = {"threads": 132, "rows": run["rows"], "networks": {"resnet18": run["peak"]}, "overrides": []}
    hardware = {"name": "NVIDIA H100", "details": {}}
    arguments = arguments_of(["--target", "cuda", "--", "budget_s=9"])
    assert (arguments.overrides, arguments.variant) == (["target=cuda", "budget_s=9"], "cuda")
    common.write_result(
        "rivals", values, common.start(), hardware, variant=arguments.variant, results=tmp_path
    )
    (result,) = Results(tmp_path).of("rivals/cuda")
    assert "GFLOP/s" not in speed.note([result])
    assert speed.rivals(result)["share"].isna().all()


@pytest.fixture
def result(tmp_path: Path) -> Result:
    first = of_report("resnet18", report(), report())
    failed = Contestant(EAGER, error="killed by signal 9")
    contestants = [make_contestant(TUNED, 0.010), failed, make_contestant("OpenVINO", 0.0075)]
    second = of_report("vgg16", report(contestants=contestants), report(contestants=contestants))
    values = {
        "threads": 2,
        "rows": [*second["rows"], *first["rows"]],
        "networks": {"resnet18": first["peak"], "vgg16": second["peak"]},
    }
    hardware = {
        "name": "AMD EPYC",
        "vector_bits": 512,
        "details": {"vendor": "AuthenticAMD", "family": "26", "model": "2"},
    }
    common.write_result("rivals", {**values, "overrides": []}, common.start(), hardware, results=tmp_path)
    (found,) = Results(tmp_path).of("rivals/")
    return found


def test_the_best_rival_is_the_fastest_that_nothing_disturbed(result: Result) -> None:
    frame = speed.rivals(result).set_index(["network", "rival"])
    # OpenVINO is faster, but disturbed.
    assert frame.loc[("resnet18", "openvino"), "cell"] == "disturbed"
    assert frame.loc[("resnet18", "foretune"), "best"] == pytest.approx(1.1)
    assert frame.loc[("resnet18", "foretune"), "best_rival"] == "ONNX Runtime"
    assert frame.loc[("vgg16", "eager"), "cell"] == "failed"
    assert frame.loc[("vgg16", "foretune"), "best"] == pytest.approx(0.75)
    ratios = frame["ratio"].dropna()
    assert ratios[:, "eager"].to_dict() == {"resnet18": 2.0}  # the one network where it ran
    assert "eager with VGG-16 (killed by signal 9)" in speed.note([result])


def test_several_runs_have_a_range_and_claim_a_lead_if_all_agree() -> None:
    def rows(number: int, eager_s: float, openvino_s: float) -> list[dict[str, Any]]:
        latencies = {"foretune": 1.0, "eager": eager_s, "openvino": openvino_s}
        about = {"network": "a", "run": number, "dtype": "float32", "version": "", "error": ""}
        costs = {"ready_s": 1.0 + number, "peak_mb": 1.0, "disturbed": False}
        return [{**about, **costs, "rival": name, "latency_s": s} for name, s in latencies.items()]

    runs = [rows(0, 3.0, 1.2), rows(1, 4.0, 1.1), rows(2, 2.0, 0.9)]
    values = {"rows": [row for of in runs for row in of], "networks": {}}
    frame = speed.rivals(Result(Path(), values, {"variant": ""})).set_index("rival")
    assert frame.loc["eager", ["ratio", "runs", "ready_s"]].tolist() == [3.0, 3, 2.0]
    assert frame.loc["eager", "cell"] == "3000 ms (2000 ms to 4000 ms)"
    assert frame.loc["foretune", "claim"] == "~1.10x (0.90x to 1.20x)" and frame.loc["eager", "best"] == 1.1
    values["rows"] = [row for row in values["rows"] if row["rival"] != "openvino"]
    frame = speed.rivals(Result(Path(), values, {"variant": ""})).set_index("rival")
    assert frame.loc["foretune", "claim"] == "3.00x (2.00x to 4.00x)"
    values["rows"] = [row for row in values["rows"] if row["run"] < 2]
    assert speed.rivals(Result(Path(), values, {"variant": ""}))["claim"][0] == "~3.50x (3.00x to 4.00x)"


def test_tasks_of_networks_behind_a_rival_tell_what_they_lose(result: Result) -> None:
    lost = list(speed.lost(result))
    assert {task["network"] for task in lost} == {"vgg16"}  # ResNet-18 is ahead
    # Of 5 ms, four fifths at half of the peak and a fifth at a two-hundredth.
    assert [task["lost_s"] for task in lost] == pytest.approx([2e-3, 0.995e-3])


def test_the_networks_are_known_and_rivals_have_titles() -> None:
    assert set(NETWORKS) <= set(ZOO) and len(set(NETWORKS)) == 13
    assert set(names()["rival"]) == {"foretune", *RIVALS}
    arguments = arguments_of(["--networks", "squeezenet", "--", "search.rounds=1"])
    assert (arguments.networks, arguments.overrides) == (["squeezenet"], ["search.rounds=1"])


def test_an_extended_result_keeps_the_networks_that_were_not_run() -> None:
    def run(name: str) -> dict[str, Any]:
        found = of_report(name, report(), report())
        return {**found, "commit": "new", "total_s": 1.0, "stage_s": {}, "peak": {"peak_gflops": 1.0}}

    before = merged({}, {name: [run(name)] for name in ("a", "b", "c")}, [])
    failed = {"network": "c", "error": "no memory"}
    after = merged(before, {"b": [{**run("b"), "left_out": {"tensorrt": "no GPU"}}]}, [failed])
    assert [row["network"] for row in after["rows"]] == ["a"] * 4 + ["b"] * 4
    assert list(after["networks"]) == ["a", "b"] and after["failures"] == [failed]
    assert after["left_out"]["b"] == {"tensorrt": "no GPU"}
    assert merged(after, {"c": [run("c")]}, [])["failures"] == []


def test_a_line_of_a_run_has_the_fastest_first() -> None:
    run = of_report("a", report(), report())
    assert (
        describe("a", run) == "a: openvino 3 ms (disturbed), foretune 6 ms, onnxruntime 6.6 ms, eager 12 ms"
    )
