"""Columns of `FeatureTable.task`: the task vector, then the draft vector (`drafting.features`)."""

MAX_ARGUMENTS = 6
MAX_RANK = 6
MAX_SPATIAL = 6
MAX_REDUCTION = 4

TASK_DIM = MAX_ARGUMENTS * MAX_RANK + MAX_SPATIAL + MAX_REDUCTION + 6
"""Length of the task vector (`features.task`), and thus first column of the draft vector."""
