"""Results of random programs, of miscompiled copies, and of programs that lack a barrier or a wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import tvm
from foretune.compiler.operators import Dense, OperatorSettings
from foretune.compiler.spaces.async_copies import has_wrong_copies

from tests.support.cuda_emulation import EmulatedGpu, Execution, NotBuiltError, Removal
from tests.support.cuda_programs import (
    TARGET,
    TENSOR_CORES,
    Prepared,
    random_programs,
    tensor_core_programs,
)
from tests.support.cuda_reuse import spread, tuner_programs

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
