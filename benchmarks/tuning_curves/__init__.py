"""Latency over time: foretune's search against stock MetaSchedule, sequentially on the same tasks.

    python -m benchmarks.tuning_curves
    python -m benchmarks.tuning_curves --tasks resnet18:0 bert_base:0@256 GMM:0 --runs 6
    python -m benchmarks.tuning_curves --tuners foretune random --variant parts

A task is either a task of a network, by its position in the order of their shares of the operations, or an
operator of TVM's `te_workload` with the number of its configuration. An @ precedes the trials of
MetaSchedule's tuners, if they differ from --trials. The tuners:

- foretune: `foretune.inference.tune_tasks` with its defaults
- foretune_longer: the same with twice its rounds and measurements
- evolution: the same without the draft model
- stock: MetaSchedule's own search, with XGBoost retrained during it, LocalBuilder and LocalRunner
- stock_measured_by_foretune: the same search with foretune's measurement
- random: random programs of the same space with foretune's measurement

Ratios are relative to stock, or without it to stock_measured_by_foretune: on a slow machine, the imports of
stock's workers use up the 30 s that a build may take.

Each clock starts before the model is loaded or the first process started. The best programs of each tuner
over time are kept. At the end, one evaluator times all programs of a task in turns, so that no tuner's own
measurement decides. It flushes caches before each run, as in a network where other operators ran before. It
also times the last program of each run with warm caches, as LocalRunner leaves them. For foretune, only the
last program is known.

Foretune's runs are kept in `outputs/benchmarks/tuning_curves` until the commit changes. MetaSchedule's runs,
which are long, are kept in `benchmarks/results/tuning_curves/<machine>/programs`.
"""
