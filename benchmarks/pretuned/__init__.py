"""Searches that begin with pretuned schedules of similar tasks beside default ones, program by program.

    python -m benchmarks.pretuned
    python -m benchmarks.pretuned --tasks 40 --minutes 60

The tasks are by chance of those that the shipped cost model was tested on. The file of schedules is made of
the bundled records without tasks of their shapes. Tasks that no schedule in it is similar to are left out and
counted: their search begins as it does by default. Each task is searched by default and with pretuned starts,
with fewer of them and with those of nearly the same tasks alone. The first two also run without templates,
which are starts of their own. The latencies of the programs are kept in the order in which they were
measured. Two minutes a task; a later call goes on.
"""
