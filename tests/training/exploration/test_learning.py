"""Reward, replay memory, epsilon and Q-targets, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from foretune.configuration import ConfigError
from foretune.training.exploration.config import LearningConfig
from foretune.training.exploration.policy import epsilon_of, ranked, target_values
from foretune.training.exploration.replay_memory import Moves, ReplayMemory
from foretune.training.exploration.reward import RewardConfig, RewardWeights


def moves(*numbers: int) -> Moves:
    """Moves that are told apart by their actions."""
    n = len(numbers)
    column = np.array(numbers, dtype=np.float32)[:, None]
    return Moves(
        vectors=column,
        hardware=np.zeros((n, 1), np.float32),
        action=np.array(numbers),
        reward=np.zeros((n, 2), np.float32),
        next_vectors=column + 1,
        next_legal=np.ones((n, 3), np.bool_),
        ends=np.zeros(n, np.bool_),
    )


def test_the_reward_by_hand():
    # Latency halves (ln 2 = 0.693), half way to the ridge point, the fourth of 16 steps.
    rewards = RewardConfig().of(np.array([1.0]), np.array([1.0 - np.log(2)]), np.array([0.5]), 4 / 16)
    high_efficiency = 0.35 * 0.693147 + 0.25 * 0.5 - 0.4 * 0.25
    high_quality = 0.45 * 0.693147 + 0.35 * 0.5 - 0.2 * 0.25
    np.testing.assert_allclose(rewards, [[high_efficiency, high_quality]], rtol=1e-5)


def test_right_of_the_ridge_point_less_traffic_earns_nothing():
    weights = RewardConfig(RewardWeights(1, 1, 0), RewardWeights(1, 0, 0))
    rewards = weights.of(np.zeros(2), np.zeros(2), np.array([1.0, 7.0]), 1.0)
    np.testing.assert_array_equal(rewards, [[1, 0], [1, 0]])


def test_a_reward_without_the_latency_is_refused():
    with pytest.raises(ConfigError, match="time above 0"):
        RewardWeights(0, 0.5, 0.5)


def test_the_memory_forgets_the_oldest_first():
    memory = ReplayMemory(4)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="empty"):
        memory.sample(1, rng)
    memory.add(moves(1, 2, 3))
    assert len(memory) == 3 and set(memory.sample(200, rng).action) == {1, 2, 3}
    memory.add(moves(4, 5))
    assert len(memory) == 4 and set(memory.sample(200, rng).action) == {2, 3, 4, 5}
    memory.add(moves(*range(10, 17)))  # more than it holds
    assert set(memory.sample(200, rng).action) == {13, 14, 15, 16}
    sampled = memory.sample(50, rng)
    np.testing.assert_array_equal(sampled.vectors[:, 0], sampled.action)  # a move stays whole
    np.testing.assert_array_equal(sampled.next_vectors[:, 0], sampled.action + 1)


def test_epsilon_decays_to_its_least():
    assert [epsilon_of(epoch, 0.1) for epoch in (0, 10, 30, 90, 900)] == [1.0, 0.5, 0.25, 0.1, 0.1]
    assert epsilon_of(5, 0.1, decay=5) == 0.5


def test_the_greedy_order_is_by_value_among_the_legal():
    values = np.array([[0.5, 0.9, 0.7, 0.8]], np.float32)
    legal = np.array([[True, False, True, True]])
    (order,) = ranked(values, legal, 0.0, np.random.default_rng(0))
    assert order.tolist() == [3, 2, 0]


def test_a_share_of_epsilon_is_random():
    n = 2000
    values, legal = np.tile(np.array([[1.0, 0.0]], np.float32), (n, 1)), np.ones((n, 2), np.bool_)
    orders = ranked(values, legal, 0.3, np.random.default_rng(0))
    others = sum(order[0] == 1 for order in orders)
    assert 0.12 * n < others < 0.18 * n  # half of the random ones


def test_targets_by_hand():
    targets = target_values(
        reward=np.array([[1.0, 2.0], [1.0, 2.0], [0.5, 0.0]], np.float32),
        next_values=np.array([[[3.0, 9.0], [4.0, 9.0]]] * 3, np.float32),
        next_legal=np.array([[True, False], [True, True], [True, True]]),
        ends=np.array([False, False, True]),
        discount=0.5,
    )
    # The action of value 9 is not legal in the first next state, and the third walk ends.
    np.testing.assert_allclose(targets, [[1 + 1.5, 2 + 2.0], [1 + 4.5, 2 + 4.5], [0.5, 0.0]])


def test_nothing_follows_a_state_without_legal_actions():
    targets = target_values(
        np.ones((1, 2), np.float32),
        np.ones((1, 2, 2), np.float32),
        np.zeros((1, 2), np.bool_),
        np.array([False]),
        0.9,
    )
    np.testing.assert_array_equal(targets, [[1, 1]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"discount": 1.5}, r"learning\.discount=1\.5"),
        ({"epsilon": -0.1}, r"learning\.epsilon=-0\.1"),
        ({"learning_rate": 0.0}, r"learning\.learning_rate=0\.0"),
        ({"updates": 0}, r"learning\.updates=0: must be at least 1"),
    ],
)
def test_settings_out_of_range_are_named(change, message):
    with pytest.raises(ConfigError, match=message):
        LearningConfig(**change)
