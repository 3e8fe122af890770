"""Process that times exported networks in turns; its arguments are NETWORK NAME=PATH NAME=PATH ..."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time

os.environ.setdefault("TVM_NUM_THREADS", str(len(os.sched_getaffinity(0))))

import tvm
from foretune.compiler.networks import load_network
from foretune.dataset.measure.worker.isolation import isolated_timing
from foretune.inference.deploy.description import read_description
from tvm import relax
from tvm.target import Target

from ..common import in_turns

TURNS = 21
"""Timed runs of each network."""


def device_of(library: tvm.runtime.Module) -> tvm.runtime.Device:
    """Device of this machine for an exported network; a CPU for a network without a description."""
    description = read_description(library)
    kind = "llvm" if description is None else Target(json.loads(description.target)).kind.name
    return tvm.cpu() if kind == "llvm" else tvm.runtime.device(kind, 0)


def main() -> None:
    network, *named = sys.argv[1:]
    libraries = {name: tvm.runtime.load_module(path) for name, _, path in (w.partition("=") for w in named)}
    device = device_of(next(iter(libraries.values())))
    inputs = [tvm.runtime.tensor(array, device) for array in load_network(network).inputs]
    calls = {}
    for name, library in libraries.items():
        calls[name] = relax.VirtualMachine(library, device)["main"]
        calls[name](*inputs)
    samples: dict[str, list[float]] = {name: [] for name in calls}
    with isolated_timing():
        for _, name in in_turns(list(calls), TURNS):
            calls[name](*inputs)  # brings the weights back into the caches
            device.sync()
            before = time.perf_counter()
            calls[name](*inputs)
            device.sync()
            samples[name].append(time.perf_counter() - before)
    print(json.dumps({name: statistics.median(values) for name, values in samples.items()}))


if __name__ == "__main__":
    main()
