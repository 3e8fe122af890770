"""LLVM's instruction scheduler with and without its bound: compile time, and latency of the code.

    python -m benchmarks.fast_scheduling
    python -m benchmarks.fast_scheduling --dataset data/cpu --programs 300

Programs are drawn from a dataset, together with the most promising template for each of its tasks. Each
program is compiled both ways in turns, and run both ways in turns if the code differs. A program takes about
two seconds.
"""
