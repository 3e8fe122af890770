"""How many programs for GPUs pass TVM's postprocessors, and what does a valid one cost? Without a GPU.

    python -m benchmarks.gpu_draws
    python -m benchmarks.gpu_draws --rows 20 --tasks 3

The benchmark draws rows of decisions for every operator type and replays them. Then it samples programs of
tasks by MetaSchedule's evolutionary search and by evolution of rows, with an XGBoost scorer. A simulated
latency, the number of a program's statements, replaces the measurement. Nothing is measured, and no figure
comes from a GPU. It needs a quarter of an hour.
"""
