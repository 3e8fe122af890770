"""Latency against time: foretune's search beside stock MetaSchedule on the same tasks, one after the other.

    python -m benchmarks.tuning_curves
    python -m benchmarks.tuning_curves --tasks resnet18:0 bert_base:0@256 GMM:0 --runs 6
    python -m benchmarks.tuning_curves --tuners foretune random --variant parts

A task is one of a network, by its place in the order of its share of the operations, or an operator of
TVM's `te_workload` with the number of its configuration; behind an @ stand the trials of MetaSchedule's
tuners, where they are not those of --trials. The tuners:

- foretune: `foretune.inference.tune_tasks` with its defaults
- foretune_longer: the same with twice its rounds and measurements
- evolution: the same without the draft model
- stock: MetaSchedule's own search, XGBoost retrained on the way, LocalBuilder and LocalRunner
- stock_measured_by_foretune: the same search with foretune's measurement
- random: random programs of the same space with foretune's measurement

Ratios are to stock, or where it is not run to stock_measured_by_foretune: on a slow machine stock's workers
spend all of the 30 s that a build may take on their imports.

Each clock runs from before the model is loaded or the first process started. The programs that a tuner takes
for its best are kept; at the end those of a task are timed in turns by one evaluator, so that no tuner's own
measurement decides: with caches flushed before each run, as in a network where other operators ran before,
and the last of each run also with warm caches, as LocalRunner leaves them. Of foretune the last program alone
is known.

Foretune's runs are kept in `outputs/benchmarks/tuning_curves` until the commit changes, MetaSchedule's, which
take long, in `benchmarks/results/tuning_curves/<machine>/programs`.
"""
