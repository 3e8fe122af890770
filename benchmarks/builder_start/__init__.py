"""Seconds until MetaSchedule's LocalBuilder has built a batch of trivial programs, one per worker.

    python -m benchmarks.builder_start

LocalBuilder starts new workers for each batch, which import their dependencies; `prepare_builder` makes these
imports faster. Runs with and without it alternate.
"""
