"""Small networks in bfloat16 whose tasks GPU templates compute, as a GPU's lowering makes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import torch
import tvm
from foretune.compiler.networks import Lowering, Network, extract_tasks, to_relax
from foretune.compiler.networks.alternatives.call_chains import call_chains
from foretune.compiler.task import Task
from foretune.compiler.templates.gpu.compilation import Compiled
from foretune.compiler.templates.gpu.function import kernel_function, launches_template
from foretune.compiler.templates.gpu.matching import Match, matched
from foretune.compiler.templates.gpu.problem import Problem
from foretune.compiler.tvm_compat import as_task_module, parse_target, workload_hash
from foretune.inference.database.fastest_template import FastestTemplate
from foretune.inference.run.gpu_placing import placed

from .results import make_task

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


class Layer(torch.nn.Module):
    """A layer of BERT: attention, a residual, layer norm, GELU between two products, and both again."""

    WIDTH, HEADS, ROWS = 32, 2, 19

    def __init__(self, library: bool = False) -> None:
        super().__init__()
        width = self.WIDTH
        self.library = library
        self.query, self.key, self.value, self.output = (torch.nn.Linear(width, width) for _ in range(4))
        self.first, self.second = torch.nn.Linear(width, 48), torch.nn.Linear(48, width)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        mask = torch.zeros(1, 1, self.ROWS, self.ROWS)
        mask[..., -3:] = -1e4
        self.register_buffer("mask", mask)

    def heads(self, rows):
        return rows.view(*rows.shape[:2], self.HEADS, -1).transpose(1, 2)

    def attention(self, query, key, value):
        if self.library:
            return torch.nn.functional.scaled_dot_product_attention(query, key, value, self.mask)
        scores = query @ key.transpose(2, 3) * query.shape[3] ** -0.5
        return torch.softmax(scores + self.mask, -1) @ value

    def forward(self, rows):
        found = self.attention(*(self.heads(of(rows)) for of in (self.query, self.key, self.value)))
        rows = self.norms[0](rows + self.output(found.transpose(1, 2).flatten(2)))
        hidden = torch.nn.functional.gelu(self.first(rows))
        return self.norms[1](rows + self.second(hidden))


class LibraryLayer(Layer):
    """The same layer by PyTorch's attention, which is exported with other steps."""

    def __init__(self) -> None:
        super().__init__(library=True)


class EarlyNorm(torch.nn.Module):
    """Softmax and layer norm by themselves, as in networks that normalise before their products."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.product = torch.nn.LayerNorm(24, eps=1e-3), torch.nn.Linear(24, 40)

    def forward(self, rows):
        return torch.softmax(self.product(self.norm(rows)).relu(), -1)


NETWORKS = {"block": (Block, (1, 8, 14, 14)), "dense": (Dense, (2, 9, 24))}
TRANSFORMERS = {
    "layer": (Layer, (2, Layer.ROWS, Layer.WIDTH)),
    "library": (LibraryLayer, (1, Layer.ROWS, Layer.WIDTH)),
    "early": (EarlyNorm, (1, 9, 24)),
}


@cache
def lowered(name: str, target: tvm.target.Target = TARGET) -> tuple[Network, tvm.IRModule, list[Task]]:
    """A network, its module in bfloat16, and its tasks, which nobody may change."""
    made, shape = (NETWORKS | TRANSFORMERS)[name]
    torch.manual_seed(0)
    return lowered_module(name, made(), shape, target)


def lowered_module(
    name: str, module: torch.nn.Module, shape: tuple[int, ...], target: tvm.target.Target = TARGET
) -> tuple[Network, tvm.IRModule, list[Task]]:
    """The same for a module of PyTorch with one input in float32."""
    inputs = (np.random.default_rng(0).standard_normal(shape, dtype=np.float32),)
    network = Network(name, inputs, module.eval())
    mod = to_relax(network, target, Lowering(dtype="bfloat16"))
    return network, mod, extract_tasks(mod, target, name)


def with_templates(mod: tvm.IRModule, template: Callable[[Problem], Compiled]) -> tuple[tvm.IRModule, int]:
    """The network with templates wherever one computes something, and how many functions launch some."""
    templates, results = {}, []
    for func in mod.functions.values():
        if not isinstance(func, tvm.tirx.PrimFunc):
            continue
        task = as_task_module(func)
        name = workload_hash(task)
        results.append(make_task(workload_hash=name, tuned_latency_s=1.0, weight=100))
        if (match := matched(task)) is not None:
            templates[name] = made_template(task["main"], match, template)
    chains = call_chains(mod)
    for chain in chains:
        templates[chain.workload] = made_template(chain.function, chain.match, template)
    changed, _ = placed(mod, results, templates, chains)
    return changed, sum(map(launches_template, changed.functions.values()))


def made_template(
    func: tvm.tirx.PrimFunc, match: Match, template: Callable[[Problem], Compiled]
) -> FastestTemplate:
    """A template of made-up latency in the place of a function."""
    compiled = template(match.problem)
    made = tvm.IRModule({"main": kernel_function(func, match, compiled)})
    return FastestTemplate(1e-6, match.problem.title(compiled.tiling), tvm.ir.save_json(made))
