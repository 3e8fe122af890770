"""How many programs for GPUs pass TVM's postprocessors, and what does a valid one cost? Without a GPU.

    python -m benchmarks.gpu_draws
    python -m benchmarks.gpu_draws --rows 20 --tasks 3

Draws rows of decisions of every operator type and replays them. Then samples programs of tasks by
MetaSchedule's evolutionary search and by evolution of rows, with an XGBoost scorer and latencies that are the
number of a program's statements. Nothing is measured, and no figure is a GPU's. A quarter of an hour.
"""
