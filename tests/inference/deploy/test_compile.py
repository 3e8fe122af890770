"""Compiling with and without tuned schedules, and the library that is exported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import tvm
from foretune.compiler.codegen.checksum import has_right_checksum
from foretune.compiler.codegen.objects import ObjectFiles
from foretune.compiler.codegen.packed_weights import with_packed_weights
from foretune.compiler.networks import Network, extract_tasks, load_network, to_relax
from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import (
    argument_buffers,
    as_task_module,
    chooses_layout,
    layout_free,
    parse_target,
    workload_hash,
)
from foretune.inference.deploy import compile as compile_module
from foretune.inference.deploy.compile import (
    CompiledNetwork,
    NetworkBuildError,
    build_context,
    compile_network,
)
from foretune.inference.deploy.outputs import compare_outputs
from foretune.inference.run.reporting import how_to_run
from support.schedules import database_of
from support.torchless import without_torch
from tvm import relax
from tvm.s_tir import meta_schedule as ms
from tvm.support.cc import get_cc


@pytest.fixture(scope="module")
def target() -> tvm.target.Target:
    return parse_target("llvm")


@pytest.fixture(scope="module")
def network() -> Network:
    return load_network("support.networks:Residual", inputs=[[1, 8, 6, 6]])


@pytest.fixture(scope="module")
def relax_mod(network: Network, target: tvm.target.Target) -> tvm.IRModule:
    return to_relax(network, target)


@pytest.fixture(scope="module")
def tasks(relax_mod: tvm.IRModule, target: tvm.target.Target) -> list[Task]:
    return extract_tasks(relax_mod, target, "residual")


@pytest.fixture(scope="module")
def untuned(relax_mod: tvm.IRModule, target: tvm.target.Target) -> CompiledNetwork:
    return compile_network(relax_mod, target)


@pytest.fixture(scope="module")
def conv(tasks: list[Task]) -> Task:
    return next(task for task in tasks if task.operator == "conv2d")


def test_the_untuned_network_computes_what_pytorch_does(
    network: Network, untuned: CompiledNetwork, tasks: list[Task]
) -> None:
    assert untuned.scheduled == () and untuned.unscheduled == tuple(task.name for task in tasks)
    check = compare_outputs(network.reference_outputs(), untuned(*network.inputs))
    assert check.agrees and check.max_abs_difference < 1e-4
    features, logits = untuned(*network.inputs)
    assert features.shape == (1, 8, 6, 6) and logits.shape == (1, 3)


def test_a_schedule_of_the_database_is_applied(
    network: Network, relax_mod: tvm.IRModule, target: tvm.target.Target, tasks: list[Task], conv: Task
) -> None:
    tuned = compile_network(relax_mod, target, database_of([conv], target))
    assert tuned.scheduled == (conv.name,)
    assert tuned.unscheduled == tuple(task.name for task in tasks if task is not conv)
    assert compare_outputs(network.reference_outputs(), tuned(*network.inputs)).agrees


def test_a_task_that_is_to_run_unscheduled_does_whatever_the_database_has(
    network: Network, relax_mod: tvm.IRModule, target: tvm.target.Target, tasks: list[Task], conv: Task
) -> None:
    database = database_of([conv], target)
    compiled = compile_network(relax_mod, target, database, unscheduled={conv.workload_hash})
    assert compiled.scheduled == () and conv.name in compiled.unscheduled
    assert compare_outputs(network.reference_outputs(), compiled(*network.inputs)).agrees


def test_a_task_whose_schedule_does_not_build_runs_without_it(
    network: Network, relax_mod: tvm.IRModule, target: tvm.target.Target, conv: Task
) -> None:
    database = ms.database.MemoryDatabase()
    broken = tvm.s_tir.Schedule(conv.mod)
    block = broken.get_child_blocks(broken.get_sblock("root"))[0]
    broken.annotate(broken.get_loops(block)[0], "pragma_import_llvm", "no code")
    workload = database.commit_workload(conv.mod)
    record = ms.database.TuningRecord(broken.trace, workload, [1e-3], target)
    database.commit_tuning_record(record)
    compiled = compile_network(relax_mod, target, database)
    assert compiled.unbuildable == (conv.name,) and compiled.scheduled == ()
    assert compare_outputs(network.reference_outputs(), compiled(*network.inputs)).agrees


def test_weights_are_brought_into_the_layout_of_the_schedule_once(
    relax_mod: tvm.IRModule, target: tvm.target.Target, conv: Task
) -> None:
    with target, database_of([conv], target):
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
    # Constant folding has run the repacking functions, so that none is called.
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
    tuned = compile_network(relax_mod, target, database_of([conv], target))
    tuned.export(tmp_path / "new" / "network.so")
    np.save(tmp_path / "in.npy", network.inputs[0])
    arguments = [tmp_path / "new" / "network.so", tmp_path / "in.npy", tmp_path / "out.npy"]
    environment = {**os.environ, **without_torch()}
    subprocess.run([sys.executable, "-c", LOADED, *map(str, arguments)], check=True, env=environment)
    np.testing.assert_allclose(
        np.load(tmp_path / "out.npy"), network.reference_outputs()[1], rtol=1e-3, atol=1e-4
    )


def test_an_export_that_fails_leaves_nothing_behind(untuned: CompiledNetwork, tmp_path: Path) -> None:
    (tmp_path / "network.so").mkdir()
    with pytest.raises(NetworkBuildError, match=r"network\.so: cannot be written \(Is a directory\)"):
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


@pytest.mark.skipif(get_cc() is None, reason="no C++ compiler links a library")
def test_a_lent_library_is_the_exported_one(
    untuned: CompiledNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported, linked, copied = (tmp_path / name for name in ("exported.so", "linked.so", "copied.so"))
    untuned.export(exported)
    untuned.lend(linked)
    assert untuned._library is not None and linked.samefile(untuned._library)

    def refuse(*_: object) -> None:
        raise OSError("Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    untuned.lend(copied)
    assert exported.read_bytes() == linked.read_bytes() == copied.read_bytes()
    assert not exported.samefile(untuned._library)  # that file is the user's
    with copied.open("rb") as file:
        assert has_right_checksum(file)


def test_compiling_leaves_the_module_unscheduled(
    relax_mod: tvm.IRModule, target: tvm.target.Target, conv: Task
) -> None:
    compile_network(relax_mod, target, database_of([conv], target))
    assert compile_network(relax_mod, target, ms.database.MemoryDatabase()).scheduled == ()


def test_a_gpu_build_does_not_fuse_tasks_again() -> None:
    gpu = parse_target("nvidia/nvidia-a100")  # code generation stops short of needing the device
    network = load_network("support.networks:ChannelShuffle", inputs=[[1, 4, 8, 8]])
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
    with pytest.raises(
        NetworkBuildError, match=rf"llvm: .*none of {len(tasks)} tasks scheduled: no such instr"
    ):
        compile_network(relax_mod, target)


def test_binding_copies_inputs_once(network: Network, untuned: CompiledNetwork) -> None:
    array = network.inputs[0].copy()
    call = untuned.bind(array)
    before = call()[0].numpy()
    array[:] = 0
    np.testing.assert_array_equal(call()[0].numpy(), before)


def test_an_export_is_told_to_run_with_foretune_and_without() -> None:
    two_cores = parse_target({"kind": "llvm", "num-cores": 2})
    ours, stock = how_to_run(Path("net.so"), two_cores)
    assert ours == "wrote net.so: foretune.load('net.so')(*inputs)"
    assert "TVM_NUM_THREADS=2 TVM_BIND_THREADS=0" in stock and "load_module('net.so'), tvm.cpu())" in stock
    (gpu,) = how_to_run(Path("net.so"), parse_target("nvidia/nvidia-a100"))
    assert "tvm.runtime.device('cuda')" in gpu and "foretune.load" not in gpu


def _three_convolutions(target: tvm.target.Target) -> tuple[Network, tvm.IRModule]:
    """A network of which a GPU captures the second layer; inputs and outputs stay outside of graphs."""
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(8, 8, 3, padding=1) for _ in range(3)]
    module = torch.nn.Sequential(*(torch.nn.Sequential(layer, torch.nn.ReLU()) for layer in layers))
    image = np.random.default_rng(0).random((1, 8, 16, 16), dtype=np.float32)
    network = Network("three_convolutions", (image,), module.eval())
    return network, to_relax(network, target)


def test_a_gpu_captures_what_lies_between_inputs_and_outputs():
    target = parse_target("nvidia/nvidia-h100")
    _, mod = _three_convolutions(target)
    with target, build_context(target):
        built = relax.get_pipeline("default_build")(mod)
    captured = {var.name_hint for var in built.get_global_vars() if "cuda_graph" in var.name_hint}
    assert captured == {"cuda_graph_alloc", "main_cuda_graph_capture"}


@pytest.mark.gpu
def test_a_graph_computes_the_outputs_of_each_call_anew():
    if not tvm.cuda(0).exist:
        pytest.skip("no CUDA device")
    target = parse_target("cuda")
    network, mod = _three_convolutions(target)
    compiled = compile_network(mod, target)
    (image,) = network.inputs
    (first,), (other,) = compiled(image), compiled(2 * image)
    (again,) = compiled(image)
    (expected,) = network.reference_outputs()
    np.testing.assert_allclose(first, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(again, first)
    with torch.inference_mode():
        doubled = network.module(torch.from_numpy(2 * image)).numpy()
    np.testing.assert_allclose(other, doubled, rtol=1e-4, atol=1e-5)


def test_tasks_without_a_schedule_may_have_a_plain_one(
    network: Network,
    relax_mod: tvm.IRModule,
    tasks: list[Task],
    target: tvm.target.Target,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scheduled = next(task for task in tasks if task.operator == "conv2d")
    untuned, *others = (task for task in tasks if task is not scheduled)
    plain = {task.workload_hash for task in others}
    changed: list[str] = []

    def noted(mod: tvm.IRModule, names: list[str]) -> tvm.IRModule:
        after = plainly_scheduled(mod, names)
        assert all(after[name].attrs["tirx.is_scheduled"] for name in names)
        changed.extend(workload_hash(as_task_module(mod[name])) for name in names)
        return after

    plainly_scheduled = compile_module.plainly_scheduled
    monkeypatch.setattr(compile_module, "plainly_scheduled", noted)
    database = database_of([scheduled], target)
    compiled = compile_network(relax_mod, target, database, plain={scheduled.workload_hash, *plain})
    assert compiled.scheduled == (scheduled.name,)
    assert others and {*changed} == plain
    assert untuned.name in compiled.unscheduled
    assert compare_outputs(network.reference_outputs(), compiled(*network.inputs)).agrees


def test_a_plain_schedule_that_does_not_build_is_left_out(
    network: Network,
    relax_mod: tvm.IRModule,
    tasks: list[Task],
    target: tvm.target.Target,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unbuildable(mod: tvm.IRModule, names: list[str]) -> tvm.IRModule:
        if names:
            raise_in_build.append(True)
        return mod

    def compile_(mod: tvm.IRModule, **settings: object) -> tvm.runtime.Executable:
        if raise_in_build:
            raise_in_build.clear()
            raise ValueError("no code")
        return compiles(mod, **settings)

    raise_in_build: list[bool] = []
    compiles = tvm.compile
    monkeypatch.setattr(compile_module, "plainly_scheduled", unbuildable)
    monkeypatch.setattr(tvm, "compile", compile_)
    compiled = compile_network(relax_mod, target, plain={task.workload_hash for task in tasks})
    assert compare_outputs(network.reference_outputs(), compiled(*network.inputs)).agrees


def test_a_library_that_was_kept_is_not_compiled_again(
    network: Network,
    relax_mod: tvm.IRModule,
    tasks: list[Task],
    target: tvm.target.Target,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiles, made = compile_module._compiled, []
    monkeypatch.setattr(compile_module, "_compiled", lambda *given: made.append(1) or compiles(*given))
    database = database_of([task for task in tasks if task.operator == "conv2d"][:1], target)

    def compiled(schedules: ms.Database | None = None, *, cached: bool = True) -> CompiledNetwork:
        return compile_network(relax_mod, target, schedules, kept=ObjectFiles(cached=cached))

    first = compiled(database)
    expected = first(*network.inputs)
    compiled(database)
    assert len(made) == 2  # an unchecked library is not kept
    assert first.kept is not None and "key" not in vars(first.kept)  # the weights were not read
    first.keep()
    again = compiled(database)
    assert len(made) == 2 and again.from_earlier_run
    assert (again.scheduled, again.unscheduled, again.task_of) == (
        first.scheduled,
        first.unscheduled,
        first.task_of,
    )
    for ours, theirs in zip(again(*network.inputs), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    again.export(tmp_path / "network.so")
    with (tmp_path / "network.so").open("rb") as file:
        assert has_right_checksum(file)
    compiled()  # other schedules
    compiled(database, cached=False)
    assert len(made) == 4
    trained = load_network("support.networks:Residual", inputs=[[1, 8, 6, 6]], seed=1)
    other_weights = compile_network(
        to_relax(trained, target), target, database, kept=ObjectFiles(cached=True)
    )
    assert len(made) == 5 and other_weights.kept is not None and first.kept is not None
    assert other_weights.kept.key != first.kept.key
    again.forget()
    compiled(database)
    assert len(made) == 6
