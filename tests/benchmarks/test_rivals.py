"""Rows and tables of tuned networks beside their rivals."""

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
from benchmarks.tables import rivals as tables
from benchmarks.tables.reading import Results


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
    values = {"threads": 132, "rows": run["rows"], "networks": {"resnet18": run["peak"]}}
    hardware = {"name": "NVIDIA H100", "details": {}}
    arguments = arguments_of(["--target", "cuda", "--", "budget_s=9"])
    assert (arguments.overrides, arguments.variant) == (["target=cuda", "budget_s=9"], "cuda")
    common.write_result(
        "rivals", values, common.start(), hardware, variant=arguments.variant, results=tmp_path
    )
    table = tables.networks_on_gpus(Results(tmp_path))
    assert "Of the peak" not in table and "132 threads" not in table
    assert cells(table)["ResNet-18"][-1] == "-"


@pytest.fixture
def results(tmp_path: Path) -> Results:
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
    common.write_result("rivals", values, common.start(), hardware, results=tmp_path)
    return Results(tmp_path)


def cells(table: str) -> dict[str, list[str]]:
    lines = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    return {line[0]: line[1:] for line in lines}


def test_networks_in_bfloat16_have_a_table_of_their_own(tmp_path: Path) -> None:
    contestants = [
        make_contestant(TUNED, 0.004, dtype="bfloat16"),
        make_contestant("OpenVINO", 0.003, dtype="bfloat16"),
        make_contestant("ONNX Runtime", 0.0066, dtype="float32"),
    ]
    run = of_report("resnet18", report(contestants=contestants), report(contestants=contestants))
    assert [row["dtype"] for row in run["rows"]] == ["bfloat16", "bfloat16", "float32"]
    values = {"threads": 2, "rows": run["rows"], "networks": {"resnet18": run["peak"]}}
    hardware = {"name": "AMD EPYC", "details": {}}
    common.write_result("rivals", values, common.start(), hardware, variant="bfloat16", results=tmp_path)
    table = tables.networks_in("bfloat16", Results(tmp_path))
    assert "Bfloat16, ONNX Runtime in float32, batch 1" in table and "0.75x (OpenVINO)" in table
    assert "Not measured yet" in tables.networks(Results(tmp_path))
    assert "--variant int8 -- lowering.dtype=int8" in tables.networks_in("int8", Results(tmp_path))


def test_the_table_has_the_ratio_to_the_best_rival(results: Results) -> None:
    table = tables.networks(results)
    found = cells(table)
    assert list(found)[2:4] == ["ResNet-18", "VGG-16"]
    heads = dict(zip(found["network"], found["ResNet-18"], strict=True))
    # OpenVINO is faster, but disturbed.
    assert heads["OpenVINO"] == "disturbed" and heads["best over tuned"] == "1.10x (ONNX Runtime)"
    assert heads["eager"] == "12.0 ms" and heads["of the peak"] == "40%"
    vgg = dict(zip(found["network"], found["VGG-16"], strict=True))
    assert vgg["eager"] == "failed" and vgg["best over tuned"] == "0.75x (OpenVINO)"
    means = dict(
        zip(found["network"], found["geometric mean of the ratio to the tuned network"], strict=True)
    )
    assert means["eager"] == "2.00x of 1"  # the one network where it ran
    assert means["best over tuned"] == "0.91x (0.75x to 1.10x)"
    assert "eager with VGG-16: killed by signal 9" in " ".join(table.split())


def test_costs_are_medians_over_networks(results: Results) -> None:
    lines = [line.strip("| ").split(" | ") for line in tables.costs(results).splitlines()[2:] if "|" in line]
    rows = {title: rest for _, title, *rest in lines}
    assert list(rows) == ["tuned network", "OpenVINO", "ONNX Runtime", "eager"]
    _, ready, memory, failed = rows["tuned network"]  # 70 s and 2 s
    assert (ready, memory, failed) == ("36 s (2.0 s to 1 min 10 s)", "250 MB (250 MB to 250 MB)", "0 of 2")
    assert rows["eager"][-1] == "1 of 2" and rows["ONNX Runtime"][-1] == "0 of 1"


def test_tasks_of_networks_behind_a_rival_tell_what_they_lose(results: Results) -> None:
    lines = [line.strip("| ").split(" | ") for line in tables.lost(results).splitlines()[2:] if "|" in line]
    vgg = [line for line in lines if line[1] == "VGG-16"]
    assert len(vgg) == len(lines) == 2  # ResNet-18 is ahead
    # Of 5 ms, four fifths at half of the peak and a fifth at a two-hundredth.
    assert [line[-1] for line in vgg] == ["2.00 ms", "0.995 ms"]


def test_tables_without_a_result_say_so(tmp_path: Path) -> None:
    assert tables.networks(Results(tmp_path)) == "Not measured yet: `python -m benchmarks.rivals`."
    assert tables.costs(Results(tmp_path)) == "Not measured yet: `python -m benchmarks.rivals`."


def test_the_networks_are_known_and_rivals_have_titles() -> None:
    assert set(NETWORKS) <= set(ZOO) and len(set(NETWORKS)) == 13
    assert set(tables.RIVALS) == set(RIVALS)
    arguments = arguments_of(["--networks", "squeezenet", "--", "search.rounds=1"])
    assert (arguments.networks, arguments.overrides) == (["squeezenet"], ["search.rounds=1"])


def test_an_extended_result_keeps_the_networks_that_were_not_run() -> None:
    def run(name: str) -> dict[str, Any]:
        found = of_report(name, report(), report())
        return {**found, "commit": "new", "total_s": 1.0, "stage_s": {}, "peak": {"peak_gflops": 1.0}}

    before = merged({}, {name: run(name) for name in ("a", "b", "c")}, [])
    failed = {"network": "c", "error": "no memory"}
    after = merged(before, {"b": {**run("b"), "left_out": {"tensorrt": "no GPU"}}}, [failed])
    assert [row["network"] for row in after["rows"]] == ["a"] * 4 + ["b"] * 4
    assert list(after["networks"]) == ["a", "b"] and after["failures"] == [failed]
    assert after["left_out"]["b"] == {"tensorrt": "no GPU"}
    assert merged(after, {"c": run("c")}, [])["failures"] == []


def test_a_line_of_a_run_has_the_fastest_first() -> None:
    run = of_report("a", report(), report())
    assert (
        describe("a", run) == "a: openvino 3 ms (disturbed), foretune 6 ms, onnxruntime 6.6 ms, eager 12 ms"
    )
