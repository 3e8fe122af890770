"""Walks on a matrix product whose programs are judged by hand."""

from __future__ import annotations

import numpy as np
from foretune.training.exploration.reward import RewardConfig
from foretune.training.exploration.walks import collect, explore
from support.exploration import JudgedByHand, random_explorer, recorded, space_of


def outermost(values: np.ndarray) -> np.ndarray:
    """Programs are the faster the larger the outermost factor of i is."""
    return -np.log2(values[:, 0])


def test_collected_moves_are_what_the_walks_did():
    one, other = space_of(recorded()), space_of(recorded(i=32, j=16, k=8))
    rng = np.random.default_rng(0)
    starts = [one.draw(3, rng), other.draw(2, rng)]
    environment = JudgedByHand(outermost)
    moves = collect(
        environment, [one, other], starts, random_explorer(), RewardConfig(), steps=4, epsilon=0.5, rng=rng
    )
    assert len(moves) == 4 * 5 and environment.observed == 5 * 5
    assert moves.ends.tolist() == [False] * 15 + [True] * 5
    # The next states of a step are the states of the one after it, except for their place in the walk.
    np.testing.assert_array_equal(moves.next_vectors[:15], moves.vectors[5:])
    assert moves.vectors[:, -1].tolist() == [0.0] * 5 + [0.25] * 5 + [0.5] * 5 + [0.75] * 5
    before = outermost(one.space.values(starts[0]))
    after = outermost(one.space.values(one.move(starts[0], moves.action[:3])))
    expected = RewardConfig().of(before, after, np.ones(3), 0.25)
    np.testing.assert_allclose(moves.reward[:3], expected, rtol=1e-5)


def visit(**changes):
    space = space_of(recorded())
    environment = JudgedByHand(outermost)
    settings = {"count": 40, "walks": 3, "mode": "high_quality", "epsilon": 0.1, **changes}
    starts = space.draw(12, np.random.default_rng(1))
    rng = np.random.default_rng(0)
    visited = explore(environment, space, random_explorer(), starts, rng=rng, **settings)
    return space, environment, starts, visited


def test_a_search_rates_as_many_different_programs_as_it_may():
    space, _, starts, visited = visit()
    assert len(visited.choices) == len(visited.time) == 40
    assert len(space.space.unique(visited.choices)) == 40
    first = len(space.space.unique(starts))
    np.testing.assert_array_equal(visited.choices[:first], space.space.unique(starts))
    np.testing.assert_array_equal(visited.time, outermost(space.space.values(visited.choices)))
    assert outermost(space.space.values(visited.best(1))) == visited.time.min()


def test_walks_begin_at_the_best_starts():
    space, _, starts, visited = visit(walks=1, epsilon=0.0)
    first = len(space.space.unique(starts))
    best = visited.choices[int(np.argmin(visited.time[:first]))]
    reached = space.move(*_legal(space, best))
    assert (reached == visited.choices[first]).all(axis=1).any()


def _legal(space, row):
    actions = np.flatnonzero(space.moves.legal(row[None])[0])
    return np.repeat(row[None], len(actions), axis=0), actions


def test_a_search_goes_on_from_what_an_earlier_one_visited():
    space, environment, starts, visited = visit()
    settings = {"count": 10, "walks": 2, "mode": "high_efficiency", "epsilon": 0.0}
    rng = np.random.default_rng(2)
    more = explore(environment, space, random_explorer(), starts, rng=rng, before=visited, **settings)
    np.testing.assert_array_equal(more.choices[:40], visited.choices)
    assert len(space.space.unique(more.choices)) == 50


def test_a_small_space_ends_the_walks():
    space = space_of(recorded(i=2, j=1, k=1))  # 4 tiles by 4 unroll steps
    visited = explore(
        JudgedByHand(outermost),
        space,
        random_explorer(),
        space.draw(1, np.random.default_rng(0)),
        count=100,
        walks=1,
        mode="high_efficiency",
        epsilon=0.0,
        rng=np.random.default_rng(0),
    )
    assert 4 < len(visited.choices) <= 16
