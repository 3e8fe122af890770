"""Searches that begin with pretuned schedules of similar tasks compared with default ones, by program.

    python -m benchmarks.pretuned
    python -m benchmarks.pretuned --tasks 40 --minutes 60

The tasks are a random choice of those on which the shipped cost model was tested. The file of schedules
contains the bundled records without tasks of their shapes. Tasks without a similar schedule in it are left
out and
counted: their search begins as it does by default. Each task is searched by default and with pretuned starts,
with fewer of them, and with those of nearly the same tasks only. The first two also run without templates,
which are starts of another kind. The latencies of the programs are kept in the order of measurement. A task
needs two minutes, and a later call continues.
"""
