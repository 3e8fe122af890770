"""Seconds until MetaSchedule's LocalBuilder has built a batch of programs that take no time, one a worker.

Its workers start anew for each batch and import what they need; `prepare_builder` has them import it faster.
With and without it take turns.

    python benchmarks/builder_start.py
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

from foretune.dataset.target_hardware import target_hardware
from foretune.dataset.tvm_compat import as_task_module, available_cores, parse_target
from foretune.inference import prepare_builder
from tvm import te
from tvm.s_tir import meta_schedule as ms

RESULTS = Path(__file__).parent / "results" / "builder_start.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--turns", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()

    target = parse_target("llvm")
    a = te.placeholder((16,), name="a")
    program = as_task_module(te.create_prim_func([a, te.compute((16,), lambda i: a[i] + 1.0, name="b")]))
    batch = [ms.builder.BuilderInput(program, target)] * available_cores()
    builders = {
        "as it is": ms.builder.LocalBuilder(timeout_sec=300.0),
        "prepared": ms.builder.LocalBuilder(timeout_sec=300.0, initializer=prepare_builder),
    }
    seconds: dict[str, list[float]] = {name: [] for name in builders}
    for _ in range(arguments.turns):
        for name, builder in builders.items():
            start = time.perf_counter()
            built = builder.build(batch)
            seconds[name].append(time.perf_counter() - start)
            if failed := [result.error_msg for result in built if result.error_msg]:
                raise SystemExit(f"{name}: {failed[0]}")
            print(f"{name}: {seconds[name][-1]:.1f} s", flush=True)
    hardware = target_hardware(target)
    told = {"machine": hardware.name, "hardware_id": hardware.hardware_id, "workers": len(batch)}
    told |= {"seconds": seconds, "median_s": {name: statistics.median(of) for name, of in seconds.items()}}
    arguments.out.write_text(json.dumps(told, indent=1) + "\n")
    print(f"wrote {arguments.out}")


if __name__ == "__main__":
    main()
