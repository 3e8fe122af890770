"""Averages of channels in depthwise convolutions: what is joined, and both results over odd shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import tvm
from foretune.compiler.codegen.compilation import compile_module, entries
from foretune.compiler.networks import Lowering, extract_tasks, to_relax
from foretune.compiler.networks.loading import Network
from foretune.compiler.networks.lowering.lowering import AS_FASTEST
from foretune.compiler.replay import replay, trace_to_json
from foretune.compiler.task import Task
from foretune.compiler.templates.cpu.depthwise import Pooling, depthwise_templates, read_depthwise
from foretune.compiler.templates.cpu.programs import scheduled_depthwise, template_traces
from foretune.compiler.tvm_compat import make_tune_context, parse_target
from foretune.inference.deploy.compile import compile_network
from foretune.inference.deploy.outputs import compare_outputs
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import nn

from tests.support.cpus import HERE, cpu, require, widest

SERVER = widest(cpu("x86-64-v4"), cpu("x86-64-v3"))
NARROW = cpu("cooperlake")


class Excited(nn.Module):
    """A depthwise convolution, and its image times a gate for each channel."""

    def __init__(self, channels: int, kernel: int = 3, stride: int = 1, bias: bool = True) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(
            channels, channels, kernel, stride, kernel // 2, groups=channels, bias=bias
        )
        self.gate = nn.Conv2d(channels, channels, 1)
        self.active = bias

    def image(self, x: torch.Tensor) -> torch.Tensor:
        found = self.convolution(x)
        return nn.functional.hardswish(found) if self.active else found

    def average(self, image: torch.Tensor) -> torch.Tensor:
        return nn.functional.adaptive_avg_pool2d(image, 1)

    def forward(self, x: torch.Tensor) -> Any:
        image = self.image(x)
        return image * torch.sigmoid(self.gate(self.average(image)))


class OnlyAverage(Excited):
    def forward(self, x: torch.Tensor) -> Any:
        return self.average(self.image(x))


class Shifted(Excited):
    """Beside it, a function without arguments."""

    def forward(self, x: torch.Tensor) -> Any:
        return super().forward(x) + torch.arange(x.shape[3])


class OfRows(Excited):
    """An average of each row."""

    def average(self, image: torch.Tensor) -> torch.Tensor:
        return image.mean(3, keepdim=True)


class OfAnother(Excited):
    """An average of what the image becomes elsewhere."""

    def forward(self, x: torch.Tensor) -> Any:
        image = self.image(x)
        return image, self.average(torch.cumsum(image, 2))


class Largest(Excited):
    def average(self, image: torch.Tensor) -> torch.Tensor:
        return image.amax((2, 3), keepdim=True)


def network(module: nn.Module, size: tuple[int, int], images: int = 1) -> Network:
    channels = module.convolution.in_channels  # type: ignore[union-attr]
    data = np.random.default_rng(0).standard_normal((images, channels, *size)).astype(np.float32)
    return Network("excited", (data,), module.eval())


def pooled_tasks(module: nn.Module, lowering: Lowering = AS_FASTEST, images: int = 1) -> list[Task]:
    mod = to_relax(network(module, (9, 6), images), NARROW, lowering)
    found = [task for task in extract_tasks(mod, NARROW, "excited") if "depthwise" in task.operator]
    return [task for task in found if (read := read_depthwise(task.mod)) is not None and read.pooling]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("module", [Excited(16), Excited(16, bias=False), OnlyAverage(16)])
def test_a_convolution_gives_its_average(module: nn.Module, dtype: str) -> None:
    (task,) = pooled_tasks(module, Lowering(dtype=dtype))
    read = read_depthwise(task.mod)
    assert read is not None and isinstance(read.pooling, Pooling)
    assert (read.rows, read.columns, read.channels) == (9, 6, 16)


@pytest.mark.parametrize("module", [OfRows(16), OfAnother(16), Largest(16)])
def test_other_reductions_stay_apart(module: nn.Module) -> None:
    assert pooled_tasks(module) == []


def test_a_layout_or_a_target_without_the_template_keeps_both_apart() -> None:
    assert pooled_tasks(Excited(16), Lowering(channels_last=False)) == []
    gpu = parse_target("nvidia/nvidia-a100")
    names = [task.name for task in extract_tasks(to_relax(network(Excited(16), (9, 6)), gpu), gpu, "excited")]
    assert not any("mean" in name or "pool" in name for name in names if "conv2d" in name)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_both_results_of_each_template_over_odd_shapes(data: st.DataObject) -> None:
    """Unscheduled and in registers, an image and its average are those of PyTorch."""
    require(SERVER)
    channels = data.draw(st.integers(1, 6).map(lambda vectors: vectors * 16) | st.integers(8, 70))
    kernel, stride = data.draw(st.sampled_from([1, 3, 5])), data.draw(st.sampled_from([1, 2]))
    images = data.draw(st.sampled_from([1, 1, 3]))
    size = data.draw(st.integers(kernel, 15)), data.draw(st.integers(kernel, 15))
    module = Excited(channels, kernel, stride, bias=data.draw(st.booleans()))
    excited = network(module, size, images)
    mod = to_relax(excited, SERVER, AS_FASTEST)
    tasks = [task for task in extract_tasks(mod, SERVER, "excited") if "depthwise" in task.operator]
    read = read_depthwise(tasks[0].mod)
    assume(read is not None and read.pooling is not None)
    possible = depthwise_templates(read, SERVER, 2)
    assume(possible)
    template = data.draw(st.sampled_from(possible))
    image, average = run(tasks[0], scheduled_depthwise(tasks[0].mod, read, template).mod, module, excited)
    with torch.inference_mode():
        expected = module.image(torch.from_numpy(excited.inputs[0]))
    last = expected.permute(0, 2, 3, 1).numpy()
    np.testing.assert_allclose(
        image, last, rtol=0, atol=1e-5 * max(1.0, np.abs(last).max()), err_msg=str(template)
    )
    mean = last.mean((1, 2), keepdims=True)
    np.testing.assert_allclose(average, mean, rtol=0, atol=1e-5 * max(1.0, np.abs(last).max()))


def run(task: Task, program: tvm.IRModule, module: Excited, excited: Network) -> list[NDArray]:
    """Both results of a program on the image and the weights of a network."""
    compiled, buffers = entries(program, checked=False)
    weights = [module.convolution.weight.detach().numpy().transpose(2, 3, 1, 0)]
    if module.convolution.bias is not None:
        weights.append(module.convolution.bias.detach().numpy())
    given = [excited.inputs[0].transpose(0, 2, 3, 1), *weights]
    (shapes,) = buffers.values()
    constants = [np.full(shape, 0) for shape, _ in shapes[len(given) :]]
    values = [*(value.reshape(shape) for value, (shape, _) in zip(given, shapes, strict=False)), *constants]
    tensors = [tvm.runtime.tensor(np.ascontiguousarray(value, np.float32)) for value in values]
    compile_module(compiled, SERVER)[next(iter(buffers))](*tensors)
    return [tensor.numpy() for tensor in tensors[-2:]]


def test_outputs_of_the_network_stay() -> None:
    for module in (Excited(24), OnlyAverage(12, kernel=5), Excited(16, stride=2, bias=False), Shifted(16)):
        excited = network(module, (9, 7), images=2)
        compiled = compile_network(to_relax(excited, HERE, AS_FASTEST), HERE)
        assert compare_outputs(excited.reference_outputs(), compiled(*excited.inputs)).agrees


def test_traces_are_ordinary_ones() -> None:
    (task,) = pooled_tasks(Excited(64), images=2)
    traces = template_traces(task.mod, SERVER, None, 3)
    assert len(traces) == 3
    for trace in traces:
        candidate = replay(make_tune_context(task.mod, SERVER, seed=0), trace)
        assert candidate is not None and trace_to_json(candidate.sch.trace) == trace
