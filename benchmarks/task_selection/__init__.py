"""Choice of the tasks to measure next: random ones, or those on which an ensemble disagrees.

    python -m benchmarks.task_selection

Records of a dataset stand for measurements: of the tasks that are not tested or validated on, a model knows
some at random and asks for more, as many again each time. Disagreement is the variance of the predictions of
the members for the programs of a task, without their records; each member was fitted to two thirds of the
known tasks. Half of the tasks may be random ones, since the tasks that an ensemble disagrees on are alike.
What is tested is the mean of the members. A quarter of an hour on one core.
"""
