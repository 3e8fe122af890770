"""Whole networks with `lowering.winograd=auto` and `off`: tuned into one database and timed in turns."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foretune.compiler.networks import load_network

from ..checkouts import python_in, tune_command
from ..common import ROOT, read_json
from ..networks.loaded import loaded_samples_s

NETWORKS = ("resnet18", "vgg16")

FORMS = ("auto", "off")
"""Values of `lowering.winograd`. The first one also searches the tasks of the second one."""

LIMIT_S = 3600.0
"""Seconds after which a network is aborted."""


def measure(network: str, overrides: Sequence[str], turns: int) -> dict[str, Any]:
    """Median latency of each form by `foretune.load`, and the alternatives that the network uses.

    Raises SubprocessError if a run of `foretune tune` fails, including its check of the outputs.
    """
    inputs = load_network(network).inputs
    with tempfile.TemporaryDirectory() as scratch:
        reports, libraries = {}, {}
        for form in FORMS:
            libraries[form] = Path(scratch) / f"{form}.so"
            words = [
                *(f"network={network}", f"lowering.winograd={form}", f"output={scratch}/{form}"),
                *(f"database={scratch}/found", f"export={libraries[form]}", "rivals=[]"),
                "untuned_limit_s=1e-9",
            ]
            command = [*tune_command(ROOT), *words, *overrides]
            python_in(ROOT, command, cwd=Path(scratch), timeout_s=LIMIT_S)
            reports[form] = read_json(Path(scratch) / form / "report.json")
        samples = loaded_samples_s(libraries, inputs, turns)
    return {
        "alternatives": reports["auto"]["alternatives"],
        "forms": {
            form: {
                "latency_s": statistics.median(samples[form]),
                "samples_s": samples[form],
                "difference": reports[form]["max_abs_difference"],
                "tolerance": reports[form]["tolerance"],
                "total_s": reports[form]["total_s"],
            }
            for form in FORMS
        },
    }
