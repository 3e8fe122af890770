"""Small networks in bfloat16 whose tasks GPU templates compute, as a GPU's lowering makes them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import tvm
from foretune.dataset.networks import Lowering, Network, extract_tasks, to_relax
from foretune.dataset.task import Task
from foretune.dataset.templates.gpu.compilation import Compiled
from foretune.dataset.templates.gpu.function import kernel_function
from foretune.dataset.templates.gpu.matching import matched
from foretune.dataset.templates.gpu.problem import Problem
from foretune.dataset.tvm_compat import parse_target

TARGET = parse_target("nvidia/nvidia-a100")


class Block(torch.nn.Module):
    """A strided convolution, another one around which the result of the first goes, and a 1x1 one."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.body = torch.nn.Conv2d(16, 16, 3, padding=1, bias=False)
        self.head = torch.nn.Conv2d(16, 24, 1)

    def forward(self, image):
        kept = self.stem(image).relu()
        return self.head((self.body(kept) + kept).relu())


class Dense(torch.nn.Module):
    """Two matrix products with GELU between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(24, 40), torch.nn.Linear(40, 24)

    def forward(self, rows):
        return self.second(torch.nn.functional.gelu(self.first(rows)))


NETWORKS = {"block": (Block, (1, 8, 14, 14)), "dense": (Dense, (2, 9, 24))}


def lowered(name: str, target: tvm.target.Target = TARGET) -> tuple[Network, tvm.IRModule, list[Task]]:
    """A network, its module in bfloat16, and its tasks."""
    made, shape = NETWORKS[name]
    torch.manual_seed(0)
    inputs = (np.random.default_rng(0).standard_normal(shape, dtype=np.float32),)
    network = Network(name, inputs, made().eval())
    mod = to_relax(network, target, Lowering(dtype="bfloat16"))
    return network, mod, extract_tasks(mod, target, name)


def with_templates(mod: tvm.IRModule, template: Callable[[Problem], Compiled]) -> tuple[tvm.IRModule, int]:
    """The network with a template in the place of each task that one computes, and how many there are."""
    placed, count = tvm.IRModule(mod.functions, attrs=mod.attrs), 0
    for var, func in mod.functions_items():
        match = matched(tvm.IRModule({"main": func})) if isinstance(func, tvm.tirx.PrimFunc) else None
        if match is not None:
            made = kernel_function(func, match, template(match.problem))
            placed[var] = made.with_attr("global_symbol", var.name_hint)
            count += 1
    return placed, count
