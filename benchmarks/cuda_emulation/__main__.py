"""Are CUDA programs correct, and do ETO's cost functions count the right quantities? Without a GPU.

Executes programs for an A100 on this CPU (`tests/support/cuda_emulation`), in two orders of threads, and
checks them for races and accesses out of bounds. The programs are random programs from MetaSchedule's space
for every operator type, and programs of the reuse tuner for a pair of each of ETO's types. Further parts are
matrix products with and without the copies that TVM compiles to wrong code, programs without one of their
barriers or waits, and the costs of BShape and TShape compared with counted sectors and wavefronts.
`--tensor-cores 24` instead executes 24 programs of each kind for tensor cores. Needs g++; no figure here is a
speed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import tvm
from foretune.compiler.operators import Dense, OperatorSettings
from foretune.compiler.spaces.async_copies import has_wrong_copies

from tests.support.cuda_emulation import EmulatedGpu, Execution, NotBuiltError, Removal, unavailable_reason
from tests.support.cuda_programs import (
    KINDS,
    OPERATORS,
    OTHER_KINDS,
    TARGET,
    TENSOR_CORES,
    Prepared,
    random_programs,
    tensor_core_programs,
)
from tests.support.cuda_reuse import PAIRS, spread, tuner_programs

from ..common import ROOT, argument_parser, kept_run, start, this_machine, write_result
from . import costs

ORDERS = ["ascending", 7]
"""Orders of threads in which every program runs."""

ALL_ORDERS = ["ascending", "descending", 2, 7]

BARRIER = r"^\s*__syncthreads\(\);"
WAIT = r"^\s*tvm_builtin_ptx_cp_async_wait_group\w*\(\);"

PRODUCT = Dense(rows=64, in_features=64, out_features=64)


def judged(prepared: Prepared, runs: list[Execution]) -> str:
    """`right`, or the first error: a fault, a race, or a wrong result."""
    if any(run.failure for run in runs):
        return "fault"
    if any(run.races for run in runs):
        return "race"
    return "right" if all(prepared.is_right(run.output) for run in runs) else "wrong"


def of_operator(gpu: EmulatedGpu, op: OperatorSettings, programs: int) -> Mapping[str, Any]:
    """Number of random programs by outcome."""
    prepared = Prepared.of(op)
    return _outcomes(gpu, prepared, random_programs(prepared.task, programs))


def of_tensor_cores(gpu: EmulatedGpu, name: str, way: str, programs: int) -> Mapping[str, Any]:
    """Number of random programs of a product by outcome, for one way to use tensor cores."""
    prepared = Prepared.of(TENSOR_CORES[name])
    return _outcomes(gpu, prepared, tensor_core_programs(prepared.task, way, programs))


def of_tuner(
    gpu: EmulatedGpu, parent: OperatorSettings, child: OperatorSettings, programs: int
) -> Mapping[str, Any]:
    """Number of the reuse tuner's programs for a child by outcome; `measured` is their total."""
    prepared = Prepared.of(child)
    found = tuner_programs(parent, prepared.task)
    return {"measured": len(found), **_outcomes(gpu, prepared, spread(found, programs))}


def _outcomes(gpu: EmulatedGpu, prepared: Prepared, programs: Iterable[tvm.IRModule]) -> Mapping[str, int]:
    """Number of programs by outcome; `not built` is an error of TVM's code generation."""
    outcomes = Counter[str]()
    for mod in programs:
        try:
            runs = gpu.run_in_orders(mod, TARGET, prepared.inputs, ORDERS, trace=True)
        except NotBuiltError:
            outcomes["not built"] += 1
            continue
        outcomes[judged(prepared, runs)] += 1
    return {"programs": sum(outcomes.values()), **outcomes}


def of_copies(gpu: EmulatedGpu, programs: int) -> Mapping[str, Any]:
    """Outcomes of float32 matrix products of stock's space, by whether the check refuses them."""
    prepared = Prepared.of(PRODUCT)
    outcomes: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for mod in random_programs(prepared.task, programs, seed=1, checked=False):
        refused = has_wrong_copies(mod, TARGET)
        try:
            run = gpu.run(mod, TARGET, prepared.inputs, checked=False)
        except NotBuiltError:
            outcomes[refused]["not built"] += 1
            continue
        outcomes[refused][judged(prepared, [run])] += 1
    return {"refused": outcomes[True], "accepted": outcomes[False]}


def of_removals(gpu: EmulatedGpu, programs: int, sites: int) -> Mapping[str, Any]:
    """Removed barriers and waits, and how many of them results or the tracer notice."""
    prepared = Prepared.of(PRODUCT)
    counts: dict[str, Counter[str]] = {"barriers": Counter(), "waits": Counter()}
    for mod in random_programs(prepared.task, programs, seed=2):
        for name, pattern in (("barriers", BARRIER), ("waits", WAIT)):
            for number in range(sites):
                try:
                    counts[name].update(_noticed(gpu, prepared, mod, Removal(pattern, number)))
                except (IndexError, NotBuiltError):  # the program has no more of them
                    break
    return counts


def _noticed(gpu: EmulatedGpu, prepared: Prepared, mod: tvm.IRModule, removal: Removal) -> Counter[str]:
    plain = gpu.run_in_orders(mod, TARGET, prepared.inputs, ALL_ORDERS, removed=removal)
    traced = gpu.run(mod, TARGET, prepared.inputs, trace=True, removed=removal)
    by_value = any(run.failure or not prepared.is_right(run.output) for run in plain)
    by_trace = bool(traced.races or traced.failure)
    return Counter(removed=1, by_value=by_value, by_tracer=by_trace, by_either=by_value or by_trace)


OUTPUTS = ROOT / "outputs" / "benchmarks" / "cuda_emulation"


def main() -> None:
    parser = argument_parser(__name__, out=False)
    parser.add_argument(
        "--programs", type=int, default=4, help="programs of an operator or pair (%(default)s)"
    )
    parser.add_argument("--copies", type=int, default=96, help="matrix products for copies (%(default)s)")
    parser.add_argument("--removals", type=int, default=4, help="programs without a barrier (%(default)s)")
    parser.add_argument("--costs", type=int, default=16, help="programs of each task for costs (%(default)s)")
    parser.add_argument(
        "--tensor-cores", type=int, default=0, help="only programs for tensor cores, so many of each kind"
    )
    parser.add_argument("--again", action="store_true", help="keep nothing of earlier runs")
    arguments = parser.parse_args()
    if reason := unavailable_reason():
        parser.error(f"{reason}; install it first")

    clock = start()
    with EmulatedGpu(OUTPUTS / "libraries") as gpu:

        def kept(name: str, settings: Any, make: Callable[[], Any]) -> Any:
            path = OUTPUTS / f"{name.replace(' ', '_').replace(',', '')}.json"
            result = kept_run(Path(path), {"of": name, "programs": settings}, make, again=arguments.again)
            print(name, result if len(str(result)) < 300 else "", flush=True)
            return result

        if number := arguments.tensor_cores:
            kinds = {
                f"{name}, {way}": kept(
                    f"tensor cores {name} {way}",
                    number,
                    lambda name=name, way=way: of_tensor_cores(gpu, name, way, number),
                )
                for name, way in (*KINDS, *OTHER_KINDS)
            }
            result = {"tensor_cores": kinds}
            write_result("cuda_emulation", result, clock, this_machine(), variant="tensor-cores")
            return

        counted = {
            name: kept(name, arguments.costs, lambda op=op: costs.of_task(gpu, op, arguments.costs))
            for name, op in costs.TASKS.items()
        }
        operators = {
            name: kept(name, arguments.programs, lambda op=op: of_operator(gpu, op, arguments.programs))
            for name, op in OPERATORS.items()
        }
        tuner = {
            name: kept(
                f"tuner {name}",
                arguments.programs,
                lambda pair=pair: of_tuner(gpu, *pair, arguments.programs),
            )
            for name, pair in PAIRS.items()
        }
        copies = kept("copies", arguments.copies, lambda: of_copies(gpu, arguments.copies))
        removals = kept("removals", arguments.removals, lambda: of_removals(gpu, arguments.removals, sites=4))
    result = {
        "operators": operators,
        "tuner": tuner,
        "copies": copies,
        "removals": removals,
        "costs": {name: costs.correlations(programs) for name, programs in counted.items()},
    }
    write_result("cuda_emulation", result, clock, this_machine())


if __name__ == "__main__":
    main()
