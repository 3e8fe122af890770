"""Seconds until MetaSchedule's LocalBuilder has built a batch of programs that take no time, one a worker.

    python -m benchmarks.builder_start

Its workers start anew for each batch and import what they need; `prepare_builder` has them import it faster.
With and without it take turns.
"""
