"""Process that times exported networks in turns; its arguments are NETWORK NAME=PATH NAME=PATH ..."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time

os.environ.setdefault("TVM_NUM_THREADS", str(len(os.sched_getaffinity(0))))

import tvm
from foretune.dataset.measure.isolation import isolated_timing
from foretune.dataset.networks import load_network
from tvm import relax

from ..common import in_turns

TURNS = 21
"""Timed runs of each network."""


def main() -> None:
    network, *named = sys.argv[1:]
    inputs = [tvm.runtime.tensor(array, tvm.cpu()) for array in load_network(network).inputs]
    calls = {}
    for name, _, path in (word.partition("=") for word in named):
        calls[name] = relax.VirtualMachine(tvm.runtime.load_module(path), tvm.cpu())["main"]
        calls[name](*inputs)
    samples: dict[str, list[float]] = {name: [] for name in calls}
    with isolated_timing():
        for _, name in in_turns(list(calls), TURNS):
            calls[name](*inputs)  # brings the weights back into the caches
            before = time.perf_counter()
            calls[name](*inputs)
            samples[name].append(time.perf_counter() - before)
    print(json.dumps({name: statistics.median(values) for name, values in samples.items()}))


if __name__ == "__main__":
    main()
