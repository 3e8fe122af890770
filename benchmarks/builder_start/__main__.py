"""Entry of `python -m benchmarks.builder_start`."""

from __future__ import annotations

import time
from pathlib import Path

from foretune.compiler.tvm_compat import as_task_module, available_cores, parse_target
from foretune.inference import prepare_builder
from tvm import te
from tvm.s_tir import meta_schedule as ms

from .. import builder_start
from ..common import RESULTS, argument_parser, in_turns, start, this_machine, write_result


def main() -> None:
    parser = argument_parser(builder_start)
    parser.add_argument("--turns", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="(%(default)s)")
    arguments = parser.parse_args()

    begun, target = start(), parse_target("llvm")
    a = te.placeholder((16,), name="a")
    program = as_task_module(te.create_prim_func([a, te.compute((16,), lambda i: a[i] + 1.0, name="b")]))
    batch = [ms.builder.BuilderInput(program, target)] * available_cores()
    builders = {
        "as it is": ms.builder.LocalBuilder(timeout_sec=300.0),
        "prepared": ms.builder.LocalBuilder(timeout_sec=300.0, initializer=prepare_builder),
    }
    seconds: dict[str, list[float]] = {name: [] for name in builders}
    for _, name in in_turns(list(builders), arguments.turns):
        before = time.perf_counter()
        built = builders[name].build(batch)
        seconds[name].append(time.perf_counter() - before)
        if failed := [result.error_msg for result in built if result.error_msg]:
            raise SystemExit(f"{name}: {failed[0]}")
        print(f"{name}: {seconds[name][-1]:.1f} s", flush=True)
    result = {"workers": len(batch), "seconds": seconds}
    print(f"wrote {write_result('builder_start', result, begun, this_machine(), results=arguments.out)}")


if __name__ == "__main__":
    main()
