"""Latency of an exported network in a new process: through `load`, and through stock TVM with its defaults.

The process runs this module as a script: `python -m foretune.inference.deploy.fresh_process LIBRARY
INPUTS`.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...compiler.host.lifeline import run_tied
from ...errors import UserError
from ..run.result import BY_LOAD, BY_STOCK, Contestant

CALLS = 10
"""Timed calls of each form, after two untimed calls."""

_MOST_S = 5.0
"""Seconds of calls after which a form gets no further call."""

_THREAD_VARIABLES = ("TVM_NUM_THREADS", "TVM_BIND_THREADS", "OMP_NUM_THREADS")
"""Environment variables that set the size of TVM's thread pool."""


class FreshProcessError(UserError, RuntimeError):
    """The exported network does not run in a new process."""


def time_in_fresh_process(library: Path, inputs: Sequence[NDArray[Any]]) -> list[Contestant]:
    """Latencies of an exported network, keyed by BY_LOAD and BY_STOCK.

    One new process times both, without thread settings in its environment and without torch, which it would
    import for a second. Stock TVM runs first, in a thread that takes its pool along when it ends. `load` runs
    second. Raises FreshProcessError.
    """
    environment = {name: value for name, value in os.environ.items() if name not in _THREAD_VARIABLES}
    with tempfile.TemporaryDirectory() as folder:
        arrays = Path(folder) / "inputs.npz"
        np.savez(arrays, *inputs)
        command = ["-m", __name__, str(library.resolve()), str(arrays)]
        done = run_tied(command, without="torch", env=environment)
    if done.returncode == -signal.SIGKILL:
        raise FreshProcessError(
            f"{library}: the new process that timed it was killed, probably because memory ran out: free "
            "some and repeat the command"
        )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise FreshProcessError(f"{library}: does not run in a new process: {reason}; export it again")
    samples = json.loads(done.stdout.splitlines()[-1])
    return [
        Contestant(name, samples_s=s, median_s=statistics.median(s), min_s=min(s))
        for name, s in samples.items()
    ]


def _samples(call: Callable[[], object]) -> list[float]:
    """Seconds of each timed call."""
    taken: list[float] = []
    started = time.perf_counter()
    for number in range(CALLS + 2):
        before = time.perf_counter()
        call()
        after = time.perf_counter()
        late = after - started > _MOST_S
        if number >= 2 or late:
            taken.append(after - before)
        if late:
            break
    return taken


def _stock(library: str, arrays: Sequence[NDArray[Any]]) -> list[float]:
    import tvm
    from tvm import relax

    tensors = [tvm.runtime.tensor(array) for array in arrays]
    run = relax.VirtualMachine(tvm.runtime.load_module(library), tvm.cpu())["main"]
    return _samples(lambda: run(*tensors))


def _main(library: str, inputs: str) -> None:
    with np.load(inputs, allow_pickle=False) as stored:
        arrays = [stored[name] for name in stored.files]
    with ThreadPoolExecutor(1) as thread:
        stock = thread.submit(_stock, library, arrays).result()
    # Imported here and not earlier, because the import sets the number of TVM's threads for the process.
    from .load import load

    network = load(library)
    print(json.dumps({BY_LOAD: _samples(lambda: network(*arrays)), BY_STOCK: stock}))


if __name__ == "__main__":
    _main(*sys.argv[1:])
