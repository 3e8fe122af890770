"""LLVM's instruction scheduler with and without its bound: time to compile, and latency of the code.

    python -m benchmarks.fast_scheduling
    python -m benchmarks.fast_scheduling --dataset data/cpu --programs 300

Programs are drawn from a dataset, beside them the most promising template of each of its tasks. Each is
compiled both ways in turns, and run both ways in turns where the code differs. About two seconds a program.
"""
