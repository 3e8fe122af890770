"""Back-to-back fusion against separate functions, all tuned: Tables 1 and 2 of Bolt, MobileNetV2."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tvm
from foretune.compiler.codegen.compilation import TIMED, compile_module, entries
from foretune.compiler.networks import Lowering, load_network, to_relax
from foretune.compiler.networks.alternatives.fusion import fusion_alternatives, joined_arguments
from foretune.compiler.tvm_compat import as_task_module, parse_target
from foretune.inference import OneShotConfig, tune_tasks
from torch import nn
from tvm.target import Target

from .common import argument_parser, in_turns, start, this_machine, warm_seconds
from .kept_runs import KeptRuns, add_options, earlier_result


class Products(nn.Module):
    """Two linear layers, each with ReLU."""

    def __init__(self, depth: int, middle: int, columns: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(depth, middle), nn.Linear(middle, columns)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.second(torch.relu(self.first(x))))


class Convolutions(nn.Module):
    """A 3x3 and a 1x1 convolution, each with bias and ReLU."""

    def __init__(self, channels: int, filters: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, filters, 3, stride, 1)
        self.second = nn.Conv2d(filters, filters, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.second(torch.relu(self.first(x))))


class InvertedResidual(nn.Module):
    """Expansion, depthwise convolution and projection with biases and ReLU6."""

    def __init__(self, channels: int, expanded: int, filters: int, stride: int) -> None:
        super().__init__()
        self.expand = nn.Conv2d(channels, expanded, 1)
        self.depthwise = nn.Conv2d(expanded, expanded, 3, stride, 1, groups=expanded)
        self.project = nn.Conv2d(expanded, filters, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        six = nn.functional.relu6
        return self.project(six(self.depthwise(six(self.expand(x)))))


@dataclass(frozen=True)
class Layers:
    """One row of the table."""

    name: str
    network: str
    """Class of this module."""
    shape: tuple[int, ...]
    kwargs: Mapping[str, int] = field(default_factory=dict)
    published: float | None = None
    """Speedup by fusion in Bolt, on a T4; None if Bolt does not report it."""


def _products(rows: int, depth: int, middle: int, columns: int, published: float) -> Layers:
    kwargs = {"depth": depth, "middle": middle, "columns": columns}
    return Layers(f"dense {rows} x {depth}-{middle}-{columns}", "Products", (rows, depth), kwargs, published)


def _convolutions(size: int, channels: int, filters: int, stride: int, published: float) -> Layers:
    kwargs = {"channels": channels, "filters": filters, "stride": stride}
    name = f"conv {size} {channels}-{filters} 3x3/{stride}, 1x1"
    return Layers(name, "Convolutions", (1, channels, size, size), kwargs, published)


def _residual(size: int, channels: int, expanded: int, filters: int, stride: int) -> Layers:
    kwargs = {"channels": channels, "expanded": expanded, "filters": filters, "stride": stride}
    name = f"inverted residual {size} {channels}-{expanded}-{filters}/{stride}"
    return Layers(name, "InvertedResidual", (1, channels, size, size), kwargs)


LAYERS = (
    *(
        _products(2464, 4, 1, 4, 1.24),
        _products(16384, 256, 64, 16, 1.34),
        _products(32768, 576, 128, 64, 1.28),
        _products(128320, 96, 32, 96, 1.46),
    ),
    *(
        _convolutions(224, 3, 48, 2, 1.10),
        _convolutions(112, 48, 48, 2, 1.41),
        _convolutions(56, 48, 48, 1, 1.87),
        _convolutions(224, 3, 64, 2, 1.24),
        _convolutions(112, 64, 64, 2, 1.12),
        _convolutions(56, 64, 64, 1, 2.02),
    ),
    *(
        _residual(112, 16, 96, 24, 2),
        _residual(56, 24, 144, 24, 1),
        _residual(56, 24, 144, 32, 2),
        _residual(28, 32, 192, 32, 1),
        _residual(28, 32, 192, 64, 2),
        _residual(14, 64, 384, 64, 1),
        _residual(14, 64, 384, 96, 1),
        _residual(14, 96, 576, 96, 1),
        _residual(14, 96, 576, 160, 2),
        _residual(7, 160, 960, 160, 1),
        _residual(7, 160, 960, 320, 1),
    ),
)
"""Rows of Tables 1 and 2 of Bolt, a batch of 1, and the shapes of MobileNetV2's blocks at 224 x 224."""


MINUTES = 60.0
"""Minutes after which no further run begins, by default."""


def measured(
    layers: Layers, target: Target, folder: Path, search: OneShotConfig, turns: int
) -> dict[str, Any]:
    """Seconds of the separate functions and of each way to fuse them, all tuned by the same search.

    `fused` is empty if no fusion is offered. The forms are timed in turns with warm caches, so the separate
    functions read data from the caches as far as it fits, as within a network.
    """
    network = load_network(
        f"benchmarks.fusion:{layers.network}", inputs=[list(layers.shape)], kwargs=dict(layers.kwargs)
    )
    lowering = Lowering(fusion="auto")
    module = to_relax(network, target, lowering)
    found = fusion_alternatives(module, target, lowering)
    if not found:
        return {"separate_s": None, "fused_s": {}}
    longest = max((alternative.piece for alternative in found), key=lambda piece: len(piece.names))
    parts = [as_task_module(function) for function in longest.functions]
    fused = [(each, as_task_module(each.functions[0])) for each in found]
    modules = [*parts, *(mod for _, mod in fused)]
    database, _ = tune_tasks(modules, target, folder, search=search)
    arguments, results = longest.sites[0].arguments, longest.sites[0].results
    runs = {"separate": _calls(parts, arguments, results, database, target)}
    for alternative, mod in fused:
        piece = alternative.piece
        first = longest.workloads.index(piece.workloads[0])
        given = joined_arguments(alternative, piece.sites[0].arguments)
        before, after = parts[:first], parts[first + len(piece.names) :]
        way = [*before, mod, *after]
        own = [*arguments[:first], given, *arguments[first + len(piece.names) :]]
        bound = [*results[:first], piece.sites[0].results[-1], *results[first + len(piece.names) :]]
        runs[" + ".join(str(n) for n in (*[1] * len(before), len(piece.names), *[1] * len(after)))] = _calls(
            way, own, bound, database, target
        )
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _, name in in_turns(list(runs), turns):
        seconds[name].append(warm_seconds(runs[name]))
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return {"separate_s": medians.pop("separate"), "fused_s": medians}


def _calls(
    modules: Sequence[tvm.IRModule],
    arguments: Sequence[Sequence[Any]],
    results: Sequence[Any],
    database: Any,
    target: Target,
) -> Callable[[], None]:
    """Runs functions sequentially; a result is the argument of the functions that read it."""
    rng = np.random.default_rng(0)
    tensors: dict[Any, Any] = {}
    ready = []
    for module, own, result in zip(modules, arguments, results, strict=True):
        schedule = database.query_schedule(module, target, "main")
        compiled, buffers = entries(module if schedule is None else schedule.mod, checked=False)
        given = []
        for key, (shape, dtype) in zip((*own, result), buffers[TIMED], strict=True):
            if key not in tensors or tuple(tensors[key].shape) != tuple(shape):
                tensors[key] = tvm.runtime.tensor(rng.uniform(0.1, 1.0, shape).astype(dtype))
            given.append(tensors[key])
        ready.append((compile_module(compiled, target).jit()[TIMED], given))

    def run() -> None:
        for function, given in ready:
            function(*given)

    return run


def describe(layers: Layers, row: Mapping[str, Any]) -> str:
    """One line about a row."""
    if row["separate_s"] is None:
        return f"{layers.name}: not offered"
    ways = ", ".join(f"{name} {1e6 * s:.1f} us" for name, s in row["fused_s"].items())
    return f"{layers.name}: separate {1e6 * row['separate_s']:.1f} us, {ways}"


def main() -> None:
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--target", default="llvm", help="target (%(default)s)")
    add("--layers", nargs="+", default=[], help="words, of which a name must have one (all)")
    add("--top-k", type=int, default=48, help="programs measured of each function (%(default)s)")
    add("--turns", type=int, default=15, help="turns of each way (%(default)s)")
    add_options(parser, "outputs/benchmarks/fusion", str(MINUTES))
    parser.set_defaults(overrides=[])
    arguments = parser.parse_args()
    begun, target = start(), parse_target(arguments.target)
    machine = this_machine(arguments.target)
    runs = KeptRuns(arguments, MINUTES, earlier=earlier_result(arguments, "fusion", machine))
    search = OneShotConfig(top_k=arguments.top_k, rounds=min(6, arguments.top_k))
    found = {row["layers"]: row for row in runs.earlier.get("rows", [])}
    for number, layers in enumerate(LAYERS):
        asked = not arguments.layers or any(word in layers.name for word in arguments.layers)
        if not asked or layers.name in found or not runs.in_time(layers.name):
            continue
        row = runs.kept(
            f"{number:02d}",
            {
                **{"layers": layers.name, "target": arguments.target},
                **{"top_k": arguments.top_k, "turns": arguments.turns},
            },
            partial(measured, layers, target, runs.folder / "database", search, arguments.turns),
        )
        if row is not None:
            print(describe(layers, row), flush=True)
            found[layers.name] = {"layers": layers.name, "published": layers.published, **row}
    rows = [found[layers.name] for layers in LAYERS if layers.name in found]
    runs.write("fusion", {"rows": rows}, begun, machine)


if __name__ == "__main__":
    main()
