"""Entry of `python -m benchmarks.cuda_emulation`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.cuda_emulation import EmulatedGpu, unavailable_reason
from tests.support.cuda_programs import KINDS, OPERATORS, OTHER_KINDS
from tests.support.cuda_reuse import PAIRS

from .. import cuda_emulation
from ..common import ROOT, argument_parser, kept_run, start, this_machine, write_result
from . import correctness, costs

OUTPUTS = ROOT / "outputs" / "benchmarks" / "cuda_emulation"


def main() -> None:
    parser = argument_parser(cuda_emulation)
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
                    lambda name=name, way=way: correctness.of_tensor_cores(gpu, name, way, number),
                )
                for name, way in (*KINDS, *OTHER_KINDS)
            }
            result = {"tensor_cores": kinds}
            print(write_result("cuda_emulation", result, clock, this_machine(), variant="tensor-cores"))
            return

        counted = {
            name: kept(name, arguments.costs, lambda op=op: costs.of_task(gpu, op, arguments.costs))
            for name, op in costs.TASKS.items()
        }
        operators = {
            name: kept(
                name, arguments.programs, lambda op=op: correctness.of_operator(gpu, op, arguments.programs)
            )
            for name, op in OPERATORS.items()
        }
        tuner = {
            name: kept(
                f"tuner {name}",
                arguments.programs,
                lambda pair=pair: correctness.of_tuner(gpu, *pair, arguments.programs),
            )
            for name, pair in PAIRS.items()
        }
        copies = kept("copies", arguments.copies, lambda: correctness.of_copies(gpu, arguments.copies))
        removals = kept(
            "removals", arguments.removals, lambda: correctness.of_removals(gpu, arguments.removals, sites=4)
        )
    result = {
        "operators": operators,
        "tuner": tuner,
        "copies": copies,
        "removals": removals,
        "costs": {name: costs.correlations(programs) for name, programs in counted.items()},
    }
    print(write_result("cuda_emulation", result, clock, this_machine()))


if __name__ == "__main__":
    main()
