"""The pool of drafts: what it hands out before and after the first measurements."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from foretune.inference.strategies.draft.drafts import Draft
from foretune.inference.strategies.draft.pool import DraftPool
from foretune.inference.surrogate.shared import own_surrogate


def draft(name, score, embedding):
    return Draft(name, score, np.array([embedding], dtype=np.float32))


def measured(traces):
    return [draft(trace, 0.9, i) for i, trace in enumerate(traces)]


def names(drafts):
    return [draft.trace for draft in drafts]


def filled(surrogate):
    """Drafts of two kinds: those from embedding 0 on have better scores than those from 100 on."""
    pool = DraftPool(surrogate)
    pool.add([draft(f"near {i}", 0.9 - 0.01 * i, i) for i in range(4)])
    pool.add([draft(f"far {i}", 0.5 - 0.01 * i, 100 + i) for i in range(4)])
    return pool


def test_the_best_predicted_go_first_where_nothing_is_learned():
    pool = filled(None)
    assert names(pool.take(3)) == ["near 0", "near 1", "near 2"]
    assert names(pool.take(2)) == ["near 3", "far 0"]
    assert len(pool) == 3
    assert names(pool.take(9)) == ["far 1", "far 2", "far 3"]
    assert pool.take(1) == []


def test_at_first_the_best_predicted_goes_with_others_that_are_unlike_it():
    """Candidates near 0 are misjudged alike: one of the other kind tells more than the second best."""
    pool = filled(own_surrogate())
    first, second = names(pool.take(2))
    assert first.startswith("near")
    assert second.startswith("far")
    assert len(pool) == 6
    assert len(pool.take(9)) == 6
    assert pool.take(1) == []


def test_measurements_choose_the_kind():
    pool = filled(own_surrogate())
    slow, fast = draft("slow", 0.95, -1), draft("fast", 0.55, 99)
    pool.learn([slow, fast], {"slow": 4e-3, "fast": 1e-3})
    assert set(names(pool.take(2))) <= {f"far {i}" for i in range(4)}


def test_what_takes_long_to_measure_comes_later():
    """Before and after the first measurement."""
    pool = DraftPool(own_surrogate())
    dear = [replace(draft(f"dear {i}", 0.9, i), cost_s=1.3) for i in range(4)]
    cheap = [replace(draft(f"cheap {i}", 0.5, i), cost_s=0.5) for i in range(4)]
    pool.add([*dear, *cheap])
    assert set(names(pool.take(2))) <= {f"cheap {i}" for i in range(4)}
    pool.learn([draft("far", 0.6, 1000)], {"far": 1e-3})
    assert set(names(pool.take(2))) <= {f"cheap {i}" for i in range(4)}


@pytest.mark.parametrize("learns", [True, False])
def test_the_fastest_are_known_either_way(learns):
    pool = filled(own_surrogate() if learns else None)
    latencies_s = {"near 0": 2e-3, "near 1": math.inf, "near 2": 1e-3}
    pool.learn(measured(latencies_s), latencies_s)
    assert pool.fastest == ["near 2", "near 0"]


def test_what_was_measured_is_not_handed_out():
    pool = filled(own_surrogate())
    pool.learn([draft("near 0", 0.9, 0)], {"near 0": 1e-3})
    assert len(pool) == 7
    assert "near 0" not in names(pool.take(7))


def test_where_nothing_ran_the_predictions_go_on():
    surrogate = own_surrogate()
    pool = filled(surrogate)
    failed = {"near 0": math.inf, "near 1": math.inf}
    pool.learn(measured(failed), failed)
    assert not surrogate.is_fitted
    assert names(pool.take(1))[0].startswith("near")


def test_what_measures_differently_from_run_to_run_is_learned_anew():
    pool = filled(own_surrogate())
    of = measured(["near 0", "near 1"])
    pool.learn(of, {"near 0": 1e-3, "near 1": 2e-3})
    assert pool.fastest == ["near 0", "near 1"]
    pool.learn(of, {"near 0": 3e-3, "near 1": 2e-3})
    assert pool.fastest == ["near 1", "near 0"]
