"""Templates for GPUs in TVM's programs and networks, their kernels executed on the emulation."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tvm
from foretune.compiler.instruction_sets import Gpu
from foretune.compiler.templates.gpu.attention import BackToBack
from foretune.compiler.templates.gpu.compilation import Compiled, Kernel
from foretune.compiler.templates.gpu.function import kernel_function, kernel_modules, launches_template
from foretune.compiler.templates.gpu.matching import Match, matched
from foretune.compiler.templates.gpu.problem import GpuTemplateError, Problem
from foretune.compiler.templates.gpu.tiling import Tiling
from foretune.compiler.tvm_compat import argument_buffers
from foretune.dataset.measure import MeasureOutcome
from foretune.dataset.records.schema import FailureKind
from foretune.inference.run.gpu_templates import GpuTemplates
from support.emulated_network import run_with_templates
from support.gpu_networks import NETWORKS, TARGET, lowered
from support.results import make_task
from support.template_text import SPARE, TILING, emulated
from tvm import te

pytestmark = pytest.mark.slow


def cases() -> list[tuple[tvm.IRModule, Match]]:
    tasks = [task for name in NETWORKS for task in lowered(name)[2]]
    found = [(task.mod, matched(task.mod)) for task in tasks]
    return [(mod, match) for mod, match in found if match is not None]


def inputs_of(mod: tvm.IRModule) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    types = {"bfloat16": ml_dtypes.bfloat16, "float32": np.float32}
    return [rng.uniform(-1, 1, shape).astype(types[dtype]) for shape, dtype in argument_buffers(mod)[:-1]]


def on_cpu(mod: tvm.IRModule, inputs: list[np.ndarray]) -> np.ndarray:
    """Output of a task's plain loops."""
    shape, dtype = argument_buffers(mod)[-1]
    tensors = [tvm.runtime.tensor(array) for array in inputs]
    output = tvm.runtime.empty(shape, dtype)
    tvm.compile(mod, target="llvm")(*tensors, output)
    return output.numpy()


def test_templates_compute_what_tasks_do(gpu) -> None:
    found = cases()
    assert len(found) == 5
    for mod, match in found:
        template = emulated(match.problem, TILING)
        launching = tvm.IRModule({"main": kernel_function(mod["main"], match, template)})
        inputs = inputs_of(mod)
        execution = gpu.run(launching, TARGET, inputs)
        assert execution.failure is None
        expected = on_cpu(mod, inputs).astype(np.float32)
        np.testing.assert_allclose(execution.output.astype(np.float32), expected, rtol=2e-2, atol=2e-2)


def test_two_products_are_launched_as_one(gpu) -> None:
    """Whoever writes the function of a pair names its parameters."""
    problem = BackToBack(m=20, k=24, middle=32, n=16, activation="relu", dtype="bf16")
    arrays = [te.placeholder(shape, "bfloat16") for shape in problem.shapes[:-1]]
    # What it computes does not matter: the template does.
    output = te.compute(problem.shapes[-1], lambda m, n: arrays[0][m, 0] + arrays[4][n])
    func = te.create_prim_func([*arrays, output])
    made = kernel_function(func, Match(problem, tuple(range(6))), emulated(problem, TILING))
    mod = tvm.IRModule({"main": made})
    inputs = inputs_of(mod)
    execution = gpu.run(mod, TARGET, inputs)
    assert execution.failure is None
    left, first, first_bias, second, second_bias = (array.astype(np.float32) for array in inputs)
    kept = np.maximum(left @ first + first_bias, 0).astype(ml_dtypes.bfloat16).astype(np.float32)
    expected = np.maximum(kept @ second + second_bias, 0)
    np.testing.assert_allclose(execution.output.astype(np.float32), expected, rtol=2e-2, atol=2e-2)


def test_a_network_launches_templates(gpu) -> None:
    network, _, _ = lowered("block")
    outputs, templates = gpu.call(run_with_templates, "block", network.inputs[0])
    (expected,) = network.reference_outputs()
    assert templates == 3
    np.testing.assert_allclose(outputs[0], expected, rtol=3e-2, atol=3e-2)


@pytest.mark.parametrize(
    ("name", "parts", "templates"),
    [
        # Three products that feed attention; attention; two products with layer norm; one with GELU.
        ("layer", 1, 5),
        ("layer", 2, 5),
        ("library", 2, 5),
        ("early", 2, 3),
    ],
)
def test_a_transformer_launches_templates_of_several_calls(
    gpu, name: str, parts: int, templates: int
) -> None:
    network, _, _ = lowered(name)
    outputs, count = gpu.call(run_with_templates, name, network.inputs[0], parts)
    (expected,) = network.reference_outputs()
    np.testing.assert_allclose(outputs[0], expected, rtol=3e-2, atol=3e-2)
    assert count == templates


def test_a_function_carries_its_kernel() -> None:
    mod, match = cases()[0]
    template = emulated(match.problem, TILING)
    made = kernel_function(mod["main"], match, template)
    assert launches_template(made) and not launches_template(mod["main"])
    again = tvm.ir.load_json(tvm.ir.save_json(tvm.IRModule({"main": made})))["main"]
    assert launches_template(again)
    launch = str(made.body)
    spare = len(match.problem.arguments) + len(match.problem.sizes)
    assert launch.count("foretune_") == 1 and "1024" in launch  # the kernel's name and its shared memory
    assert template.kernels[0].assembly.count(".param") == spare + SPARE
    other = kernel_function(mod["main"], match, emulated(match.problem, Tiling(32, 16, 16, 1, 2)))
    assert str(other.body) != launch


def test_assembly_without_an_entry_is_an_error() -> None:
    mod, match = cases()[0]
    broken = Compiled(TILING, (Kernel(registers=32, stack_bytes=0, shared_bytes=0, assembly="// nothing"),))
    with pytest.raises(GpuTemplateError, match="has no entry; use another version of Triton"):
        kernel_function(mod["main"], match, broken)


def test_without_the_cuda_runtime_the_error_says_what_to_do() -> None:
    if tvm.get_global_func("ffi.Module.create.cuda", allow_missing=True) is not None:
        pytest.skip("TVM has its CUDA runtime here")
    mod, match = cases()[0]
    made = kernel_function(mod["main"], match, emulated(match.problem, TILING))
    with pytest.raises(GpuTemplateError, match=r"libcudart\.so\.13.*search.templates=0"):
        kernel_modules(tvm.IRModule({"main": made}))


class Timed:
    """Executor whose latencies are given in the order of the jobs; None fails."""

    def __init__(self, latencies_s: list[float | None]) -> None:
        self._latencies_s = latencies_s
        self.jobs = 0

    def measure(self, jobs):
        self.jobs += len(jobs)
        failed = MeasureOutcome(failure=FailureKind.RUN_ERROR, message="Traceback\nout of memory")
        given = [self._latencies_s.pop(0) for _ in jobs]
        return [failed if s is None else MeasureOutcome(run_secs=(s,)) for s in given]


def two_templates(problem: Problem, _: Gpu, count: int) -> list[Compiled] | str:
    assert count == 2
    return [emulated(problem, TILING), emulated(problem, Tiling(32, 16, 16, 1, 2))]


def test_the_fastest_template_takes_the_place_of_a_slower_schedule(tmp_path) -> None:
    _, mod, tasks = lowered("dense")
    templates = GpuTemplates(tmp_path, TARGET, 2)
    names = list(templates.due(tasks))
    assert len(names) == 2
    said: list[str] = []
    executor = Timed([3e-6, 2e-6, None, 5e-6])
    assert templates.measure(templates.due(tasks), executor, say=said.append, compile_=two_templates) == 3
    assert said == ["templates for GPUs that failed: 1, out of memory"]
    results = [
        make_task(workload_hash=name, tuned_latency_s=seconds)
        for name, seconds in zip(names, (4e-6, 4e-6), strict=True)
    ]
    for known in (templates, GpuTemplates(tmp_path, TARGET, 2)):  # also in the next run
        assert known.due(tasks) == {}
        assert known.measure(known.due(tasks), executor, compile_=two_templates) == 0
        placed, told = known.placed(mod, results)
        assert [result.tuned_latency_s for result in told] == [2e-6, 4e-6]
        assert told[0].template == "product in blocks of 32x16x16, 1 warp, 2 stages"
        assert told[1].template == ""
        assert sum(map(launches_template, placed.functions.values())) == 1
        assert not any(map(launches_template, mod.functions.values()))
    assert executor.jobs == 4
    assert list(GpuTemplates(tmp_path, TARGET, 2, retune=True).due(tasks)) == names


def test_a_task_whose_templates_do_not_compile_is_not_tried_again(tmp_path) -> None:
    _, mod, tasks = lowered("dense")
    templates = GpuTemplates(tmp_path, TARGET, 2)
    said: list[str] = []
    ran = templates.measure(
        templates.due(tasks), Timed([]), say=said.append, compile_=lambda *_: "Triton does not compile it"
    )
    assert (ran, said) == (0, ["Triton does not compile it"] * 2)
    assert templates.due(tasks) == {}
    results = [make_task(workload_hash=task.workload_hash) for task in tasks]
    assert templates.placed(mod, results)[1] == results


def test_a_task_whose_templates_do_not_run_is_tried_again(tmp_path) -> None:
    _, _, tasks = lowered("dense")
    templates = GpuTemplates(tmp_path, TARGET, 2)
    assert templates.measure(templates.due(tasks), Timed([None] * 4), compile_=two_templates) == 0
    assert len(templates.due(tasks)) == 2


def test_no_templates_without_a_gpu_or_where_none_is_asked_for(tmp_path) -> None:
    _, _, tasks = lowered("dense")
    assert GpuTemplates(tmp_path, TARGET, 0).due(tasks) == {}
    assert GpuTemplates(tmp_path, tvm.target.Target("llvm"), 2).due(tasks) == {}
