"""Candidates as rows of integers that are sampled, mutated and featurized in NumPy, without lowering.

A MetaSchedule design space is a *sketch*: a list of instructions, some of which sample a decision. The loops
and index expressions of a task are read once (`read_structure`). Loop extents, bytes touched at each level
and traffic past each cache then follow from the tile sizes by arithmetic. A draft model scores tens of
thousands of candidates a second this way, whereas replaying one takes milliseconds; the store-level model
then rescores the best of them.

Importing the package does not import TVM. Only `read_structure`, `read_spaces` and loading a dataset need it.
"""

DRAFT_VERSION = "draft-1"
"""Version of the draft features; change it whenever the meaning of a feature changes."""
