"""Entry of `python -m benchmarks.fusion`."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from foretune.compiler.codegen.compilation import TIMED, compile_module, entries
from foretune.compiler.networks import Lowering, load_network, to_relax
from foretune.compiler.networks.alternatives.fusion import fusion_alternatives, joined_arguments
from foretune.compiler.tvm_compat import as_task_module, parse_target
from foretune.inference import OneShotConfig, tune_tasks
from tvm.target import Target

from .. import fusion
from ..common import argument_parser, in_turns, start, this_machine, warm_seconds
from ..kept_runs import KeptRuns, add_options, earlier_result
from .layers import LAYERS, Layers

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
        f"{__package__}.layers:{layers.network}", inputs=[list(layers.shape)], kwargs=dict(layers.kwargs)
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
    parser = argument_parser(fusion)
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
    print(f"wrote {runs.write('fusion', {'rows': rows}, begun, machine)}")


if __name__ == "__main__":
    main()
