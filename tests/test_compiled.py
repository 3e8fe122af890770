"""Compiling with and without tuned schedules, comparing outputs, and timing in turns."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import tvm
from foretune.dataset.networks import Network, extract_tasks, load_network, to_relax
from foretune.dataset.replay import instantiate
from foretune.dataset.task import Task
from foretune.dataset.tvm_compat import (
    argument_buffers,
    as_task_module,
    chooses_layout,
    design_spaces,
    layout_free,
    make_tune_context,
    parse_target,
)
from foretune.inference import compiled as subject
from foretune.inference.compiled import (
    CompiledNetwork,
    NetworkBuildError,
    OutputCheck,
    bind_eager,
    build_context,
    check_outputs,
    compare_latency,
    compile_network,
    with_packed_weights,
)
from tvm import relax
from tvm.s_tir import meta_schedule as ms
from tvm.support.cc import get_cc


@pytest.fixture(scope="module")
def target() -> tvm.target.Target:
    return parse_target("llvm")


@pytest.fixture(scope="module")
def network() -> Network:
    return load_network("networks_under_test:Residual", inputs=[[1, 8, 6, 6]])


@pytest.fixture(scope="module")
def relax_mod(network: Network, target: tvm.target.Target) -> tvm.IRModule:
    return to_relax(network, target)


@pytest.fixture(scope="module")
def tasks(relax_mod: tvm.IRModule, target: tvm.target.Target) -> list[Task]:
    return extract_tasks(relax_mod, target, "residual")


@pytest.fixture(scope="module")
def untuned(relax_mod: tvm.IRModule, target: tvm.target.Target) -> CompiledNetwork:
    return compile_network(relax_mod, target)


def database_of(task: Task, target: tvm.target.Target) -> ms.Database:
    """One record: the first schedule of the task's design space, with the decisions drawn there."""
    context = make_tune_context(task.mod, target, seed=0)
    (space, *_) = design_spaces(context, task.name)
    candidate = instantiate(context, space.trace, seed=1)
    database = ms.database.MemoryDatabase()
    workload = database.commit_workload(task.mod)
    record = ms.database.TuningRecord(candidate.sch.trace, workload, [1e-3], target, candidate.args_info)
    database.commit_tuning_record(record)
    return database


@pytest.fixture(scope="module")
def conv(tasks: list[Task]) -> Task:
    return next(task for task in tasks if task.operator == "conv2d")


def test_the_untuned_network_computes_what_pytorch_does(
    network: Network, untuned: CompiledNetwork, tasks: list[Task]
) -> None:
    assert untuned.scheduled == () and untuned.unscheduled == tuple(task.name for task in tasks)
    check = check_outputs(network, untuned)
    assert check.agrees and check.max_abs_difference < 1e-4
    features, logits = untuned(*network.inputs)
    assert features.shape == (1, 8, 6, 6) and logits.shape == (1, 3)


def test_a_schedule_of_the_database_is_applied(
    network: Network, relax_mod: tvm.IRModule, target: tvm.target.Target, tasks: list[Task], conv: Task
) -> None:
    tuned = compile_network(relax_mod, target, database_of(conv, target))
    assert tuned.scheduled == (conv.name,)
    assert tuned.unscheduled == tuple(task.name for task in tasks if task is not conv)
    assert check_outputs(network, tuned).agrees


def test_weights_are_brought_into_the_layout_of_the_schedule_once(
    relax_mod: tvm.IRModule, target: tvm.target.Target, conv: Task
) -> None:
    with target, database_of(conv, target):
        scheduled = relax.transform.MetaScheduleApplyDatabase()(relax_mod)
    given, (weight,) = argument_buffers(conv.mod), layout_free(conv.mod["main"])
    assert chooses_layout(as_task_module(scheduled[conv.name]))
    packed = with_packed_weights(scheduled)
    arguments = [
        [tuple(argument.ty.shape.values) for argument in call.args[1]]
        for call in calls_of(packed["main"])
        if call.args[0].name_hint.startswith(conv.name)
    ]
    assert arguments, packed.script()
    for shapes in arguments:
        assert len(shapes) == len(given) - 1
        assert len(shapes[weight]) > len(given[weight][0])
    # What brings them there has run, and is not called.
    called = {call.args[0].name_hint for call in calls_of(packed["main"])}
    assert {name for name in called if conv.name in name} == {f"{conv.name}_prepacked"}


LOADED = """
import sys, numpy, tvm
from tvm import relax
machine = relax.VirtualMachine(tvm.runtime.load_module(sys.argv[1]), tvm.cpu())
outputs = machine["main"](tvm.runtime.tensor(numpy.load(sys.argv[2])))
numpy.save(sys.argv[3], outputs[1].numpy())
assert not [name for name in sys.modules if name.startswith("foretune")]
"""


@pytest.mark.skipif(get_cc() is None, reason="no C++ compiler")
def test_an_exported_network_needs_stock_tvm_alone(
    network: Network, relax_mod: tvm.IRModule, target: tvm.target.Target, conv: Task, tmp_path: Path
) -> None:
    tuned = compile_network(relax_mod, target, database_of(conv, target))
    tuned.export(tmp_path / "new" / "network.so")
    np.save(tmp_path / "in.npy", network.inputs[0])
    arguments = [tmp_path / "new" / "network.so", tmp_path / "in.npy", tmp_path / "out.npy"]
    subprocess.run([sys.executable, "-c", LOADED, *map(str, arguments)], check=True)
    np.testing.assert_allclose(
        np.load(tmp_path / "out.npy"), network.reference_outputs()[1], rtol=1e-3, atol=1e-4
    )


def test_an_export_that_fails_leaves_nothing_behind(untuned: CompiledNetwork, tmp_path: Path) -> None:
    (tmp_path / "network.so").mkdir()
    with pytest.raises(NetworkBuildError, match=r"export=.*network\.so: cannot be written: "):
        untuned.export(tmp_path / "network.so")
    assert [path.name for path in tmp_path.iterdir()] == ["network.so"]


def calls_of(func: relax.Function) -> list[relax.Call]:
    """The calls of TIR functions, in order."""
    found: list[relax.Call] = []

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, relax.Call) and expr.op == tvm.ir.Op.get("relax.call_tir"):
            found.append(expr)

    relax.analysis.post_order_visit(func, visit)
    return found


def test_compiling_leaves_the_module_unscheduled(
    relax_mod: tvm.IRModule, target: tvm.target.Target, conv: Task
) -> None:
    compile_network(relax_mod, target, database_of(conv, target))
    assert compile_network(relax_mod, target, ms.database.MemoryDatabase()).scheduled == ()


def test_a_gpu_build_does_not_fuse_tasks_again() -> None:
    gpu = parse_target("nvidia/nvidia-a100")  # code generation stops short of needing the device
    network = load_network("networks_under_test:ChannelShuffle", inputs=[[1, 4, 8, 8]])
    mod = to_relax(network, gpu)
    pipeline = relax.get_default_pipeline(gpu)

    def fused_again(lowered: tvm.IRModule) -> bool:
        return any(var.name_hint.startswith("fused_fused") for var in lowered.functions)

    assert fused_again(pipeline(mod))
    with build_context(gpu):
        assert not fused_again(pipeline(mod))


def test_a_build_that_fails_is_named(
    relax_mod: tvm.IRModule,
    target: tvm.target.Target,
    tasks: list[Task],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError("\nno such instruction\nat line 3")

    monkeypatch.setattr(tvm, "compile", fail)
    with pytest.raises(NetworkBuildError, match=rf"llvm: .*0 of {len(tasks)} tasks scheduled: no such instr"):
        compile_network(relax_mod, target)


def test_binding_copies_inputs_once(network: Network, untuned: CompiledNetwork) -> None:
    array = network.inputs[0].copy()
    call = untuned.bind(array)
    before = call()[0].numpy()
    array[:] = 0
    np.testing.assert_array_equal(call()[0].numpy(), before)


class _Outputs:
    """Stands for a compiled network that gives these outputs."""

    def __init__(self, *outputs: np.ndarray) -> None:
        self.outputs = list(outputs)

    def __call__(self, *inputs: np.ndarray) -> list[np.ndarray]:
        return self.outputs


@pytest.fixture
def doubling() -> Network:
    """Its one output is (2, -20)."""

    class Double(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * x

    return Network("double", (np.array([1.0, -10.0], np.float32),), Double())


@pytest.mark.parametrize(
    ("output", "difference", "agrees"),
    [
        ([2.0, -20.0], 0.0, True),
        ([2.0, -20.001], 0.001, True),  # within 1e-4 of 20
        ([2.0, -20.003], 0.003, False),
        ([2.5, -20.0], 0.5, False),
        ([float("nan"), -20.0], float("inf"), False),
        ([2.0, float("-inf")], float("inf"), False),
    ],
)
def test_outputs_are_compared_to_the_largest_reference(
    doubling: Network, output: list[float], difference: float, agrees: bool
) -> None:
    check = check_outputs(doubling, _Outputs(np.array(output)))  # type: ignore[arg-type]
    assert check.max_abs_difference == pytest.approx(difference, rel=1e-6)
    assert check.tolerance == pytest.approx(20e-4)
    assert check.agrees is agrees


def test_a_reference_that_is_not_finite_never_agrees() -> None:
    network = Network("nan", (np.array([np.nan, 1.0], np.float32),), torch.nn.Identity())
    assert not check_outputs(network, _Outputs(np.array([np.nan, 1.0]))).agrees  # type: ignore[arg-type]


def test_outputs_of_another_shape_are_an_error(doubling: Network) -> None:
    with pytest.raises(ValueError, match=r"network=double: .*\(3,\).*\(2,\)"):
        check_outputs(doubling, _Outputs(np.zeros(3)))  # type: ignore[arg-type]


def test_the_tolerance_itself_agrees() -> None:
    assert OutputCheck(0.5, 0.5).agrees and not OutputCheck(0.51, 0.5).agrees


def test_calls_take_turns_and_rounds_rotate() -> None:
    order: list[str] = []
    calls = {name: (lambda name=name: order.append(name)) for name in "abc"}
    stats = compare_latency(calls, repeats=3)
    # Each call runs twice in its turn, once to prime the caches.
    assert "".join(order) == "aabbcc" + "bbccaa" + "ccaabb"
    assert [(s.name, len(s.samples_s)) for s in stats] == [("a", 3), ("b", 3), ("c", 3)]


class _Clock:
    """A clock that only `wait` moves, in place of the time module."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    clock = _Clock()
    monkeypatch.setattr(subject, "time", clock)
    return clock


def test_latencies_are_seconds_of_the_second_run(clock: _Clock) -> None:
    waits = iter([0.5, 0.25, 0.5, 0.75, 0.5, 0.125])
    (stats,) = compare_latency({"call": lambda: clock.wait(next(waits))}, repeats=3)
    assert stats.samples_s == [0.25, 0.75, 0.125]
    assert stats.median_s == 0.25 and stats.min_s == 0.125


def test_calls_far_behind_the_fastest_get_few_samples(clock: _Clock) -> None:
    """50 ms is over SLOW_RATIO times 1 ms, 8 ms is not."""
    calls = {name: lambda s=s: clock.wait(s) for name, s in (("fast", 1e-3), ("near", 8e-3), ("far", 0.05))}
    samples = {stats.name: len(stats.samples_s) for stats in compare_latency(calls, repeats=6)}
    assert samples == {"fast": 6, "near": 6, "far": subject.SLOW_SAMPLES}


def test_calls_far_behind_that_take_long_are_sampled_once(clock: _Clock) -> None:
    """One run of 27 s is over SLOW_BUDGET_S and 300 times the other: it is not run again."""
    calls = {name: lambda s=s: clock.wait(s) for name, s in (("untuned", 27.0), ("tuned", 0.09))}
    samples = {stats.name: len(stats.samples_s) for stats in compare_latency(calls, repeats=6)}
    assert samples == {"untuned": 1, "tuned": 6}


def test_slow_calls_run_once_and_time_limits_rounds(clock: _Clock) -> None:
    (stats,) = compare_latency({"slow": lambda: clock.wait(4.0)}, repeats=50, max_seconds=9.0)
    # Rounds start at 0, 4 and 8 seconds.
    assert stats.samples_s == [4.0, 4.0, 4.0] and clock.now == 12.0
    (only,) = compare_latency({"slow": lambda: clock.wait(4.0)}, repeats=50, max_seconds=0.0)
    assert only.samples_s == [4.0]


def test_torch_threads_are_set_for_the_comparison_only() -> None:
    before = torch.get_num_threads()
    seen: list[int] = []
    compare_latency({"x": lambda: seen.append(torch.get_num_threads())}, repeats=1, threads=before + 1)
    assert set(seen) == {before + 1} and torch.get_num_threads() == before


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads stay on a core on Linux")
def test_calls_are_timed_on_the_first_core_once_the_libraries_have_their_threads() -> None:
    cores = os.sched_getaffinity(0)
    seen: list[set[int]] = []
    compare_latency({"x": lambda: seen.append(os.sched_getaffinity(0))}, repeats=3)
    assert seen == [cores] * 2 + [{min(cores)}] * 4
    assert os.sched_getaffinity(0) == cores


@pytest.mark.parametrize(("calls", "repeats"), [({}, 3), ({"x": lambda: None}, 0)])
def test_nothing_to_compare_is_an_error(calls: dict, repeats: int) -> None:
    with pytest.raises(ValueError, match="at least one"):
        compare_latency(calls, repeats=repeats)


def test_eager_needs_a_pytorch_module(network: Network, doubling: Network) -> None:
    assert bind_eager(doubling)().tolist() == [2.0, -20.0]
    with pytest.raises(ValueError, match="ONNX"):
        bind_eager(Network("onnx", ()))
