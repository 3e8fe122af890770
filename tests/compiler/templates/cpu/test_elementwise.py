"""Templates of tasks without sums: what is read, orders, and outputs over odd shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import tvm
from foretune.compiler.codegen.compilation import TIMED, compile_module, entries
from foretune.compiler.networks import AS_FASTEST, extract_tasks, to_relax
from foretune.compiler.networks.loading import Network
from foretune.compiler.operators import Dense, Reduction, Softmax, to_task
from foretune.compiler.replay import replay, trace_to_json
from foretune.compiler.task import Task
from foretune.compiler.templates.cpu.elementwise import (
    LOOPS,
    TURNED,
    VECTORS,
    ElementwiseTemplate,
    Output,
    elementwise_templates,
    read_elementwise,
)
from foretune.compiler.templates.cpu.programs import scheduled_elementwise, template_programs, template_traces
from foretune.compiler.tvm_compat import make_tune_context
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import nn

from tests.support.cpus import cpu, require, widest

SERVER = widest(cpu("x86-64-v4"), cpu("x86-64-v3"))


class Function(nn.Module):
    """A function of its inputs."""

    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.call(*inputs)


def task_of(call: Callable[..., Any], *shapes: tuple[int, ...]) -> Task:
    """The only task of a network that is a function of random inputs."""
    rng = np.random.default_rng(0)
    inputs = tuple(rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    mod = to_relax(Network("function", inputs, Function(call).eval()), SERVER, AS_FASTEST)
    (task,) = extract_tasks(mod, SERVER, "function")
    return task


def shuffled(x: torch.Tensor, y: torch.Tensor) -> Any:
    """Channels of two images in turn, cut into two again, as in ShuffleNetV2 with channels last."""
    both = torch.stack([x, y], -1).flatten(3)
    return both.split(x.shape[3], 3)


def outputs(program: tvm.IRModule, task: Task) -> list[NDArray[Any]]:
    """All buffers of a program behind one run on the same random inputs; outputs begin as NaN."""
    module, buffers = entries(program, checked=False)
    stored = len(read_elementwise(task.mod).outputs)  # type: ignore[union-attr]
    rng = np.random.default_rng(1)
    values = [rng.standard_normal(shape).astype(dtype) for shape, dtype in buffers[TIMED]]
    for value in values[-stored:]:
        value.fill(np.nan)
    tensors = [tvm.runtime.tensor(value) for value in values]
    compile_module(module, SERVER)[TIMED](*tensors)
    return [tensor.numpy() for tensor in tensors[-stored:]]


def check(task: Task) -> set[str]:
    """Compares all templates with the task as it is; returns their orders."""
    require(SERVER)
    expected = outputs(task.mod, task)
    found = set()
    for template, program in template_programs(task.mod, SERVER, None):
        assert isinstance(template, ElementwiseTemplate)
        for got, wanted in zip(outputs(program.mod, task), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6, err_msg=str(template))
        found.add(template.order)
    return found


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=st.integers(60, 120), columns=st.integers(35, 70), batch=st.sampled_from([2, 3, 5]))
def test_odd_shapes_agree_with_the_task_as_it_is(rows: int, columns: int, batch: int) -> None:
    image = (batch, rows, columns)
    check(task_of(lambda x: torch.relu(x.transpose(1, 2)), image))
    check(task_of(lambda x: nn.functional.pad(x, (1, 2, 0, 3)) * 2, image))
    check(task_of(lambda x, y: torch.cat([x, y], 2), image, (batch, rows, 7)))
    check(task_of(lambda x, y: nn.functional.silu(x) + y[:, :1], image, image))


def test_two_outputs_of_a_shuffle() -> None:
    task = task_of(shuffled, (1, 9, 8, 58), (1, 9, 8, 58))
    read = read_elementwise(task.mod)
    assert read is not None and [output.extents for output in read.outputs] == [(1, 9, 8, 58)] * 2
    assert [output.turned for output in read.outputs] == [None, None]
    assert check(task) == {VECTORS, LOOPS}


def test_a_transposition_is_turned_where_squares_fit() -> None:
    def orders(*shape: int) -> list[str]:
        read = read_elementwise(task_of(lambda x: torch.relu(x.transpose(1, 2)), shape).mod)
        assert read is not None
        return [template.order for template in elementwise_templates(read)]

    assert orders(3, 64, 48) == [TURNED, LOOPS, VECTORS]
    assert orders(12, 197, 64) == [TURNED, LOOPS, VECTORS]
    assert orders(3, 17, 256) == [VECTORS, LOOPS]  # of two squares, the second is nearly empty
    assert orders(2, 3, 4096) == [VECTORS, LOOPS]
    assert check(task_of(lambda x: torch.relu(x.transpose(1, 2)), (3, 61, 45))) == {TURNED, LOOPS, VECTORS}


@pytest.mark.parametrize(
    ("extent", "lanes"),
    [(768, 64), (58, 58), (116, 58), (197, 197), (48, 48), (3, 3), (1000, 50), (257, None), (514, None)],
)
def test_lanes_by_hand(extent: int, lanes: int | None) -> None:
    assert Output("block", (4, extent), None).lanes == lanes


def test_a_gather_by_data_is_read() -> None:
    rng = np.random.default_rng(0)
    table = torch.from_numpy(rng.standard_normal((50, 96)).astype(np.float32))
    inputs = (rng.integers(0, 50, (64,)),)
    network = Network("gather", inputs, Function(lambda at: torch.relu(table[at])).eval())
    tasks = extract_tasks(to_relax(network, SERVER, AS_FASTEST), SERVER, "gather")
    assert any(read_elementwise(task.mod) is not None for task in tasks)


@pytest.mark.parametrize(
    "task",
    [
        to_task(Dense(rows=64, in_features=64, out_features=64)),
        to_task(Softmax(rows=64, columns=128)),
        to_task(Reduction(rows=64, columns=128)),
        task_of(torch.relu, (4, 64)),
    ],
    ids=["product", "softmax", "sum", "small"],
)
def test_other_tasks_are_left_alone(task: Task) -> None:
    assert read_elementwise(task.mod) is None


def test_threads_share_large_outputs_alone() -> None:
    def shared(rows: int) -> bool:
        task = task_of(torch.relu, (rows, 64))
        read = read_elementwise(task.mod)
        assert read is not None
        program = scheduled_elementwise(task.mod, read, ElementwiseTemplate(LOOPS), 2)
        return "parallel" in program.mod.script()

    assert shared(128) and not shared(127)


def test_traces_are_ordinary_ones() -> None:
    task = task_of(lambda x: torch.relu(x.transpose(1, 2)), (3, 61, 45))
    traces = template_traces(task.mod, SERVER, None, 3)
    assert len(traces) == 3
    for trace in traces:
        candidate = replay(make_tune_context(task.mod, SERVER, seed=0), trace)
        assert candidate is not None and trace_to_json(candidate.sch.trace) == trace
