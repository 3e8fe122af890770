"""Choice of the tasks to measure next: random tasks, or tasks on which an ensemble disagrees.

    python -m benchmarks.task_selection

Records of a dataset replace measurements. Of the tasks outside the test and the validation, a model knows
some at random and asks for more, as many again each time. Disagreement is the variance of the members'
predictions for the programs of a task, without their records; each member was fitted to two thirds of the
known tasks. Half of the tasks may be random ones, since the tasks on which an ensemble disagrees are alike.
The test uses the mean of the members. A run takes a quarter of an hour on one core.
"""
