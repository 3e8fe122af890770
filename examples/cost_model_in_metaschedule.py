"""Use Foretune's cost model in stock MetaSchedule.

    python examples/cost_model_in_metaschedule.py [work_dir]

Search, builder and runner are MetaSchedule's. The cost model is pretrained and does not learn during the
search.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tvm
from foretune.inference import PretrainedCostModel, prepare_builder
from tvm import te, topi
from tvm.s_tir import meta_schedule as ms


def softmax(rows: int = 64, columns: int = 256) -> tvm.IRModule:
    """Returns the softmax of each row as a module with one function `main`."""
    data = te.placeholder((rows, columns), name="data")
    function = te.create_prim_func([data, topi.nn.softmax(data)])
    return tvm.IRModule({"main": function.with_attr("global_symbol", "main")})


def main(work_dir: Path, trials: int = 8, builders: int | None = None) -> None:
    """Tunes with `trials` measurements; a real run uses 64 or more. `builders=None` is one for each core."""
    database = ms.tune_tir(
        softmax(),
        tvm.target.Target({"kind": "llvm", "num-cores": 2}),
        str(work_dir),
        max_trials_global=trials,
        cost_model=PretrainedCostModel.load("cpu"),
        builder=ms.builder.LocalBuilder(max_workers=builders, initializer=prepare_builder),
        strategy=ms.search_strategy.EvolutionarySearch(population_size=32, genetic_num_iters=1),
        num_tuning_cores=2,
    )
    best = min(float(record.run_secs[0]) for record in database.get_all_tuning_records())
    print(f"{len(database)} programs measured; the fastest takes {best * 1e6:.1f} us")


if __name__ == "__main__":  # the builder starts processes
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "outputs/metaschedule"))
