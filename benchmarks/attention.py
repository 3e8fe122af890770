"""Attention in one function against separate ones, on single layers and in an encoder, timed in turns."""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from foretune.compiler.networks import Lowering, load_network, lowered_network
from foretune.compiler.networks.alternatives.alternatives import with_alternatives
from foretune.compiler.tvm_compat import parse_target
from foretune.inference import OneShotConfig, tune_tasks
from foretune.inference.deploy.compile import compile_network
from torch import nn

from .common import argument_parser, in_turns, start, this_machine, warm_seconds
from .kept_runs import KeptRuns, add_options, earlier_result

SEPARATE, FUSED = "separate", "fused"

DTYPES = ("float32", "bfloat16")
"""Data types of the networks."""

HEADS, WIDTH = 12, 64

LENGTHS = (128, 384, 1500)
"""Tokens of BERT in a sentence and in SQuAD, and frames of 30 s of speech in Whisper."""

ENCODER = {"layers": 2, "heads": 8, "width": 512, "hidden": 2048}
"""Layers of Whisper's base encoder, of 1,500 frames; two of six."""

TEMPLATES = OneShotConfig(rounds=1, top_k=4, templates=4, propose=False, surrogate=False)
"""Only templates are measured, as with `search=templates`."""


class Attention(nn.Module):
    """softmax(query key^T / 8) value of heads whose rows are side by side."""

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        def of_heads(rows: torch.Tensor) -> torch.Tensor:
            return rows.view(1, -1, HEADS, WIDTH).transpose(1, 2)

        weights = torch.softmax(of_heads(query) @ of_heads(key).mT * WIDTH**-0.5, -1)
        return (weights @ of_heads(value)).transpose(1, 2).reshape(1, -1, HEADS * WIDTH)


class Encoder(nn.Module):
    """Layers of an encoder, with norms first."""

    def __init__(self, layers: int, heads: int, width: int, hidden: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Layer(heads, width, hidden) for _ in range(layers))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            rows = layer(rows)
        return rows


class _Layer(nn.Module):
    def __init__(self, heads: int, width: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.body = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        normed = self.norms[0](rows)
        of_heads = (
            part(normed).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        attended = nn.functional.scaled_dot_product_attention(*of_heads)
        rows = rows + self.out(attended.transpose(1, 2).flatten(2))
        return rows + self.body(self.norms[1](rows))


def measure(
    name: str,
    shapes: Sequence[Sequence[int]],
    arguments: Mapping[str, int],
    turns: int,
    target_name: str,
    dtype: str,
) -> dict[str, Any]:
    """Latencies of both forms, tuned by templates, and their largest differences from PyTorch.

    Both forms are compiled in this process and run in turns with warm caches. `gain` is the expected ratio.
    """
    target = parse_target(target_name)
    network = load_network(f"benchmarks.attention:{name}", inputs=shapes, kwargs=dict(arguments) or None)
    lowered = lowered_network(network, target, Lowering(dtype=dtype))
    chosen = [one for one in lowered.alternatives if one.kind.startswith("attention")]
    modules = {SEPARATE: lowered.relax_mod, FUSED: with_alternatives(lowered.relax_mod, chosen)}
    tasks = {
        task.workload_hash: task
        for task in (*lowered.tasks, *(task for one in chosen for task in one.offer.tasks))
    }
    reference = network.reference_outputs()
    with tempfile.TemporaryDirectory() as folder:
        database, _ = tune_tasks(list(tasks.values()), target, folder, search=TEMPLATES)
        compiled = {form: compile_network(module, target, database) for form, module in modules.items()}
        differences = {
            form: max(
                float(np.abs(one - other).max())
                for one, other in zip(run(*network.inputs), reference, strict=True)
            )
            for form, run in compiled.items()
        }
        runs = {form: one.bind(*network.inputs) for form, one in compiled.items()}
        samples: dict[str, list[float]] = {form: [] for form in runs}
        for _, form in in_turns(list(runs), turns):
            samples[form].append(warm_seconds(runs[form]))
    return {
        "gain": [one.gain for one in chosen],
        "forms": {
            form: {
                "latency_s": statistics.median(samples[form]),
                "fastest_s": min(samples[form]),
                "difference": differences[form],
            }
            for form in runs
        },
    }


MINUTES = 60.0
"""Minutes after which no further run begins, by default."""


def cases(dtype: str) -> dict[str, tuple[str, list[list[int]], dict[str, int]]]:
    """Network of this module, shapes of its inputs and its arguments, by name of the row.

    Inputs and outputs of a network are float32, so that a layer alone has no attention in bfloat16.
    """
    shape = [1, LENGTHS[-1], ENCODER["width"]]
    encoder = ("Encoder", [shape], dict(ENCODER))
    name = f"encoder of {ENCODER['layers']} layers"
    if dtype != DTYPES[0]:
        return {f"{name}, {dtype}": encoder}
    layers = {
        f"{HEADS} heads, {length} x {WIDTH}": ("Attention", [[1, length, HEADS * WIDTH]] * 3, {})
        for length in LENGTHS
    }
    return {**layers, name: encoder}


def arguments_of() -> argparse.Namespace:
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--target", default="llvm", help="target (%(default)s)")
    add("--dtype", choices=DTYPES, default=DTYPES[0], help="data type of the networks (%(default)s)")
    add("--turns", type=int, default=15, help="timings of each form (%(default)s)")
    add_options(parser, "outputs/benchmarks/attention", str(MINUTES))
    parser.set_defaults(overrides=[])
    return parser.parse_args()


def describe(name: str, row: Mapping[str, Any]) -> str:
    """One line about a row."""
    separate, fused = (row["forms"][form]["latency_s"] for form in (SEPARATE, FUSED))
    return f"{name}: separate {1e3 * separate:.3g} ms, fused {1e3 * fused:.3g} ms, {separate / fused:.2f}x"


def main() -> None:
    arguments = arguments_of()
    begun, machine = start(), this_machine(arguments.target)
    runs = KeptRuns(arguments, MINUTES, earlier=earlier_result(arguments, "attention", machine))
    found = {row["name"]: row for row in runs.earlier.get("rows", [])}
    for number, (name, (network, shapes, given)) in enumerate(cases(arguments.dtype).items()):
        if name in found or not runs.in_time(name):
            continue
        row = runs.kept(
            f"{arguments.dtype}-{number:02d}",
            {"name": name, "target": arguments.target, "turns": arguments.turns},
            partial(measure, network, shapes, given, arguments.turns, arguments.target, arguments.dtype),
        )
        if row is not None:
            found[name] = {"name": name, **row}
            print(describe(name, row), flush=True)
    rows = [found[name] for dtype in DTYPES for name in cases(dtype) if name in found]
    runs.write("attention", {"threads": machine.cores, "rows": rows}, begun, machine)


if __name__ == "__main__":
    main()
