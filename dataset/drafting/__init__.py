"""Drafting: candidates as rows of numbers, drawn, changed and described in NumPy without lowering any.

A MetaSchedule design space is a *sketch*, a list of instructions of which some draw a decision. With the
loops and index expressions of the task read once (`read_structure`), everything that the sketch's tiles make
of them follows from arithmetic: extents of loops, bytes that each level touches, traffic past a cache. So a
draft model rates tens of thousands of candidates a second, where replaying one costs milliseconds; the
store-level model then verifies the best of them.

Importing the package does not import TVM; only `read_structure`, `read_spaces` and reading a dataset need it.
"""

DRAFT_VERSION = "draft-1"
"""Version of the draft features: changes whenever the meaning of any of them changes."""
