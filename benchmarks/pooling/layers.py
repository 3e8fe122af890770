"""Layers with squeeze and excitation: a depthwise convolution, followed by the average of each channel."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any

import tvm
from foretune.compiler.codegen.compilation import TIMED, compile_module, entries
from foretune.compiler.networks import AS_FASTEST, extract_tasks, load_network, to_relax
from foretune.compiler.replay import replay, trace_to_json
from foretune.compiler.task import Task
from foretune.compiler.templates.cpu.programs import template_programs
from foretune.compiler.tvm_compat import make_tune_context
from foretune.dataset.sampling.programs import RandomSampler, SamplerSetting
from foretune.errors import UserError
from torch import Tensor, nn
from tvm.target import Target

from ..common import in_turns, warm_seconds
from ..templates.shapes import values_of

Layer = tuple[int, int, int, int, str]

LAYERS: Mapping[str, tuple[Layer, ...]] = {
    "EfficientNet-B0": (
        (112, 32, 3, 1, "silu"),
        (112, 96, 3, 2, "silu"),
        (56, 144, 3, 1, "silu"),
        (56, 144, 5, 2, "silu"),
        (28, 240, 5, 1, "silu"),
        (14, 480, 3, 1, "silu"),
        (14, 672, 5, 1, "silu"),
        (7, 1152, 5, 1, "silu"),
    ),
    "MobileNetV3": (
        (56, 72, 5, 2, "relu"),
        (28, 120, 5, 1, "relu"),
        (14, 480, 3, 1, "hardswish"),
        (14, 672, 3, 1, "hardswish"),
        (7, 960, 5, 1, "hardswish"),
    ),
}
"""Size of the image, channels, window, stride and activation by network."""

DRAWS = 32
"""Random programs of a separate average."""


class Image(nn.Module):
    """A depthwise convolution with its activation."""

    def __init__(self, channels: int, window: int, stride: int, activation: str) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels, channels, window, stride, window // 2, groups=channels)
        self.activation = activation

    def forward(self, image: Tensor) -> Any:
        found: Tensor = getattr(nn.functional, self.activation)(self.convolution(image))
        return found


class Both(Image):
    """The image and the average of each of its channels."""

    def forward(self, image: Tensor) -> Any:
        found = super().forward(image)
        return found, nn.functional.adaptive_avg_pool2d(found, 1)


class Average(nn.Module):
    """The average alone."""

    def forward(self, image: Tensor) -> Tensor:
        return nn.functional.adaptive_avg_pool2d(image, 1)


def name_of(layer: Layer) -> str:
    """Size, channels and window, as in other tables."""
    size, channels, window, stride, activation = layer
    return f"{size} {channels} {window}x{window}{' / 2' if stride == 2 else ''} {activation}"


def measured(layer: Layer, target: Target, turns: int) -> dict[str, Any]:
    """Median seconds of a convolution, of one with a separate average after it, and of both in one."""
    size, channels, window, stride, activation = layer
    image, both = (
        by_template(task_of(form, (channels, size), target, window, stride, activation), target)
        for form in (Image, Both)
    )
    average = fastest_draw(task_of(Average, (channels, size // stride), target), target)

    def separate() -> None:
        image()
        average()

    forms = {"image": image, "separate": separate, "joined": both}
    seconds: dict[str, list[float]] = {form: [] for form in forms}
    for _, form in in_turns(list(forms), turns):
        seconds[form].append(warm_seconds(forms[form]))
    return {"latency_s": {form: statistics.median(each) for form, each in seconds.items()}}


def task_of(form: type[nn.Module], shape: tuple[int, int], target: Target, *arguments: object) -> Task:
    """The task of a network of one function."""
    names = ("channels", "window", "stride", "activation")
    channels, size = shape
    kwargs = dict(zip(names, (channels, *arguments), strict=True)) if arguments else None
    network = load_network(f"{__name__}:{form.__name__}", inputs=[[1, channels, size, size]], kwargs=kwargs)
    tasks = extract_tasks(to_relax(network, target, AS_FASTEST), target, form.__name__)
    return max(tasks, key=lambda task: task.flops)


def by_template(task: Task, target: Target) -> Callable[[], object]:
    """The program of the most promising template."""
    context = make_tune_context(task.mod, target, seed=0)
    for _, program in template_programs(task.mod, target, None):
        candidate = replay(context, trace_to_json(program.trace))
        if candidate is not None:
            return bound(candidate.sch.mod, target)
    raise UserError(f"--target {target}: it has no template of {task.name}; give a CPU with AVX2")


def fastest_draw(task: Task, target: Target) -> Callable[[], object]:
    """The fastest of some random programs."""
    sampler = RandomSampler(SamplerSetting(task, target, per_round=DRAWS, seed=0))
    programs = [bound(candidate.sch.mod, target) for _, candidate in sampler.propose()]
    return min(programs, key=lambda run: min(warm_seconds(run, 0.01) for _ in range(3)))


def bound(module: tvm.IRModule, target: Target) -> Callable[[], object]:
    """A run of a program, with separate arguments."""
    program, buffers = entries(module, checked=False)
    run = compile_module(program, target)[TIMED]
    values = [tvm.runtime.tensor(values_of(*buffer)) for buffer in buffers[TIMED]]
    return lambda: run(*values)
