"""Run a network that `foretune tune export=FILE` wrote.

foretune tune network=resnet18 export=resnet18.so
python examples/run_exported_network.py resnet18.so
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import foretune
import numpy as np


def main(library: Path, calls: int = 20) -> None:
    """Calls the network `calls` times on zeros and prints the median latency."""
    network = foretune.load(library)  # executes code of the file: load only files that you trust
    print(network)
    inputs = [np.zeros(spec.shape, spec.dtype) for spec in network.inputs]
    seconds = []
    for _ in range(calls):
        before = time.perf_counter()
        network(*inputs)
        seconds.append(time.perf_counter() - before)
    print(f"one call takes {statistics.median(seconds) * 1e3:.2f} ms")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
