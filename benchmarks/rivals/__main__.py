"""Tuned networks compared with a user's other choices: PyTorch eager, torch.compile, ONNX Runtime, OpenVINO.

    python -m benchmarks.rivals
    python -m benchmarks.rivals --runs 3 --keep --extend --minutes 120
    python -m benchmarks.rivals --networks squeezenet resnet18 -- search=high_efficiency
    python -m benchmarks.rivals --target cuda --networks resnet18 -- budget_s=300

Each network is tuned by `foretune tune` from an empty database and timed in turns with its rivals, each in a
separate process. `--runs` repeats this with other seeds. Measured networks are kept in
`outputs/benchmarks/rivals` until the commit changes, or beyond it with `--keep`, so a stopped benchmark
resumes. A run of 13 networks takes about 45 minutes on two cores. On a GPU, PyTorch's engines are the only
rivals.
"""

from __future__ import annotations

import argparse
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from foretune.inference.deploy.rivals.registry import RIVALS

from ..checkouts import cause_of, commit_of
from ..common import ROOT, argument_parser, kept_run, start, this_machine, write_result
from ..kept_runs import earlier_result
from .runs import FORETUNE, measure

NETWORKS = (
    *("resnet18", "resnet50", "vgg16", "densenet121", "squeezenet"),
    *("mobilenetv2", "mobilenetv3_large", "efficientnet_b0", "shufflenetv2"),
    *("bert_base", "vit_base", "gpt2", "dcgan"),
)
"""Convolutional, mobile, transformer and generative networks."""


NOTES = f"{FORETUNE} is the tuned network; a rival's latency is the median of its undisturbed turns."


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--networks", nargs="+", default=NETWORKS, help="(%(default)s)")
    add("--target", default="llvm", help="target of foretune tune (%(default)s)")
    add("--rival-limit-s", type=float, default=90.0, help="seconds a rival may compile (%(default)s)")
    add("--runs", type=int, default=1, help="tunings and timings of each, by seed (%(default)s)")
    add("--rivals", nargs="*", default=list(RIVALS), help="(%(default)s)")
    add("--minutes", type=float, help="begin no network after so many")
    add("--again", action="store_true", help="run anew what is kept")
    add("--keep", action="store_true", help="keep runs of earlier commits too; the result names each commit")
    add("--extend", action="store_true", help="add to the committed result of this machine")
    add("--runs-in", type=Path, default=Path("outputs/benchmarks/rivals"), help="(%(default)s)")
    add("--variant", default="", help="suffix of the result's folder")
    add("overrides", nargs="*", metavar="OVERRIDE", help="for foretune tune, after a --")
    arguments = parser.parse_args(words)
    if arguments.target != "llvm":
        arguments.overrides = [f"target={arguments.target}", *arguments.overrides]
        arguments.variant = arguments.variant or arguments.target
    return arguments


def run_of(arguments: argparse.Namespace, network: str, seed: int) -> dict[str, Any]:
    """The run of a network and seed, or an earlier run of the same commit."""
    overrides = [*arguments.overrides, *([f"seed={seed}"] if seed else [])]
    settings = {
        "commit": commit_of(ROOT),
        "network": network,
        "rival_limit_s": arguments.rival_limit_s,
        "overrides": overrides,
        **({} if arguments.rivals == list(RIVALS) else {"rivals": arguments.rivals}),
    }
    return kept_run(
        arguments.runs_in / f"{network.replace(':', '-')}{f'-{seed}' if seed else ''}.json",
        settings,
        lambda: {
            "commit": settings["commit"],
            **measure(
                network,
                overrides,
                rival_limit_s=arguments.rival_limit_s,
                rivals=arguments.rivals,
            ),
        },
        again=arguments.again,
        free=("commit",) if arguments.keep else (),
    )


def describe(network: str, run: Mapping[str, Any]) -> str:
    """One line about a run, fastest first."""
    parts = []
    for row in sorted(run["rows"], key=lambda row: row["latency_s"] or float("inf")):
        latency = "failed" if row["latency_s"] is None else f"{1e3 * row['latency_s']:.3g} ms"
        parts.append(f"{row['rival']} {latency}{' (disturbed)' if row['disturbed'] else ''}")
    return f"{network}: {', '.join(parts)}"


def merged(
    earlier: Mapping[str, Any],
    runs: Mapping[str, Sequence[Mapping[str, Any]]],
    failures: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Fields of a result, from the runs of each network and from the other networks of an earlier result.

    A row has the number of its run; all other fields are those of a network's first run.
    """
    firsts = {name: of[0] for name, of in runs.items()}
    tried = {*runs, *(failure["network"] for failure in failures)}

    def others(field: str) -> list[Any]:
        return [one for one in earlier.get(field, ()) if one["network"] not in tried]

    def kept(field: str) -> dict[str, Any]:
        return {name: one for name, one in earlier.get(field, {}).items() if name not in tried}

    return {
        "failures": [*others("failures"), *failures],
        "left_out": {
            **kept("left_out"),
            **{name: run["left_out"] for name, run in firsts.items() if run["left_out"]},
        },
        "rows": [
            *others("rows"),
            *(
                {**row, "run": number}
                for of in runs.values()
                for number, run in enumerate(of)
                for row in run["rows"]
            ),
        ],
        "networks": {
            **kept("networks"),
            **{
                name: {
                    "commit": run["commit"],
                    "total_s": run["total_s"],
                    "stage_s": run["stage_s"],
                    "calls": run["calls"],
                    **run["peak"],
                }
                for name, run in firsts.items()
            },
        },
    }


def main() -> None:
    arguments = arguments_of()
    begun, began = start(), time.monotonic()
    hardware = this_machine(arguments.target)
    earlier = earlier_result(arguments, "rivals", hardware)
    runs: dict[str, list[dict[str, Any]]] = {}
    failures = []
    turns = [(network, seed) for seed in range(arguments.runs) for network in arguments.networks]
    for number, (network, seed) in enumerate(turns, 1):
        if arguments.minutes is not None and time.monotonic() - began > 60 * arguments.minutes:
            print(
                f"{arguments.minutes} minutes are over before {network}; the same command goes on", flush=True
            )
            break
        try:
            run = run_of(arguments, network, seed)
            runs.setdefault(network, []).append(run)
            line = describe(network, run)
        except (subprocess.SubprocessError, OSError) as error:
            failures.append({"network": network, "error": cause_of(error)})
            line = f"{network}: failed: {cause_of(error)}"
        minutes = (time.monotonic() - began) / 60
        print(f"[{number} of {len(turns)}, {minutes:.1f} min] {line}", flush=True)
    result = {
        "overrides": arguments.overrides,
        "rival_limit_s": arguments.rival_limit_s,
        "threads": hardware.cores,
        **merged(earlier, runs, failures),
    }
    write_result(
        "rivals",
        result,
        begun,
        hardware,
        variant=arguments.variant,
        notes=NOTES,
        results=arguments.out,
    )


if __name__ == "__main__":
    main()
