"""Operators of a task in order, read from its TIR."""

from __future__ import annotations

from foretune.compiler.operators import Dense, Softmax, to_task
from foretune.compiler.structure.operator_sequence import operator_sequence


def test_a_sequence_has_no_shapes_and_names_what_is_computed():
    dense, larger = (to_task(Dense(rows=8, in_features=8, out_features=extent)) for extent in (8, 32))
    assert operator_sequence(dense) == operator_sequence(larger) == ("dense",)
    biased = to_task(Dense(rows=8, in_features=8, out_features=8, epilogue="bias_relu"))
    assert operator_sequence(biased) == ("dense", "add", "max")
    softmax = to_task(Softmax.examples()[0])
    assert operator_sequence(softmax)[-1] != "softmax"  # the normalisation follows the sum
