"""Prior over the zoo's table: worked probabilities, draws outside the table, marginals close to it."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from foretune.compiler.operators import (
    NOT_CRAWLED,
    OPERATOR_SETTINGS,
    CapsuleConv2d,
    Conv2d,
    Conv3d,
    Dense,
    GroupConv3d,
    OperatorSettings,
    SettingsError,
    WinogradConv2d,
)
from foretune.dataset.sampling.tasks.derived import with_derived
from foretune.dataset.sampling.tasks.prior import Prior, knobs_of
from foretune.dataset.sampling.zoo.table import ZooRow, read_zoo_table
from hypothesis import given, settings
from hypothesis import strategies as st


def row(op: OperatorSettings, networks: int = 1, evaluation: tuple[str, ...] = ()) -> ZooRow:
    names = ("a", "b", "c")[: min(networks, 3)]
    return ZooRow(op, calls=networks, networks=networks, examples=names, evaluation=evaluation)


def dense(rows: int, in_features: int, out_features: int) -> Dense:
    return Dense(rows=rows, in_features=in_features, out_features=out_features)


CRAWLED = [name for name, cls in OPERATOR_SETTINGS.items() if not cls.typical()]
"""Operators that the table has rows for, or that are made of some that are in it."""

TOY = [row(dense(1, 10, 100), 3), row(dense(1, 20, 200)), row(dense(2, 10, 300), 4)]


@pytest.fixture(scope="module")
def zoo() -> list[ZooRow]:
    return with_derived(read_zoo_table())


@pytest.fixture(scope="module")
def prior(zoo: list[ZooRow]) -> Prior:
    return Prior(zoo)


def test_probability_by_hand() -> None:
    prior = Prior(TOY)
    # rows: N(1) = 4 of 8. in_features given rows=1: two rows with two values, so w = 2 / (2 + 2) = 1/2;
    # N(10 | 1) = 3 of 4, and of all 7 of 8. out_features given (1, 10): one row, one value, w = 1/2, share 1;
    # given in_features=10: two rows, two values, w = 1/2, N(100 | 10) = 3 of 7; of all 3 of 8.
    in_features = 1 / 2 * 3 / 4 + 1 / 2 * 7 / 8
    out_features = 1 / 2 * 1 + 1 / 2 * (1 / 2 * 3 / 7 + 1 / 2 * 3 / 8)
    assert prior.probability(dense(1, 10, 100)) == pytest.approx(1 / 2 * in_features * out_features)


def test_without_smoothing_it_is_the_chain_of_the_paper() -> None:
    prior = Prior(TOY, smoothing=0)
    assert prior.probability(dense(1, 10, 100)) == pytest.approx(3 / 8)
    assert prior.probability(dense(1, 20, 200)) == pytest.approx(1 / 8)
    assert prior.probability(dense(2, 10, 100)) == 0
    rng = np.random.default_rng(0)
    assert {prior.sample("dense", rng) for _ in range(200)} == {r.settings for r in TOY}


@given(
    shapes=st.lists(
        st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 9)),
        min_size=1, max_size=8, unique_by=lambda shape: shape[:3],
    ),
    smoothing=st.floats(0, 10),
)  # fmt: skip
@settings(deadline=None, max_examples=40)
def test_probabilities_add_up_to_one(shapes: list[tuple[int, int, int, int]], smoothing: float) -> None:
    prior = Prior([row(dense(*shape[:3]), shape[3]) for shape in shapes], smoothing)
    every = [dense(a, b, c) for a in (1, 2, 3) for b in (1, 2, 3) for c in (1, 2, 3)]
    assert sum(prior.probability(op) for op in every) == pytest.approx(1)


def test_draws_follow_the_probabilities() -> None:
    prior, rng, n = Prior(TOY), np.random.default_rng(1), 8000
    drawn = Counter(prior.sample("dense", rng) for _ in range(n))
    assert len(drawn) == 12  # every combination of 2 x 2 x 3 values
    for op, count in drawn.items():
        p = prior.probability(op)
        assert abs(count / n - p) < 5 * (p * (1 - p) / n) ** 0.5, op


def test_rows_only_of_evaluation_networks_do_not_count() -> None:
    unseen = ZooRow(dense(5, 5, 5), calls=0, networks=0, examples=(), evaluation=("resnet18",))
    assert Prior([*TOY, unseen]).probability(dense(5, 5, 5)) == 0


def test_impossible_settings_are_drawn_again() -> None:
    wide = Conv2d(batch=1, in_channels=8, height=8, width=8, out_channels=8, kernel=7)
    tiny = Conv2d(batch=1, in_channels=8, height=2, width=2, out_channels=8, kernel=1)
    prior, rng = Prior([row(wide), row(tiny)]), np.random.default_rng(0)
    drawn = {(op.kernel[0], op.height) for op in (prior.sample("conv2d", rng) for _ in range(300))}
    assert drawn == {(7, 8), (1, 2), (1, 8)}


@pytest.mark.parametrize("operator", CRAWLED)
def test_many_draws_are_outside_the_table(operator: str, prior: Prior, zoo: list[ZooRow]) -> None:
    table = {r.settings for r in zoo if r.settings.operator == operator}
    rng = np.random.default_rng(0)
    outside = np.mean([prior.sample(operator, rng) not in table for _ in range(600)])
    assert 0.08 < outside < 0.6


@pytest.mark.parametrize("operator", CRAWLED)
def test_marginals_stay_close_to_the_table(operator: str, prior: Prior, zoo: list[ZooRow]) -> None:
    rows = [r for r in zoo if r.settings.operator == operator and r.networks]
    rng, n = np.random.default_rng(0), 2000
    drawn = [prior.sample(operator, rng) for _ in range(n)]
    for knob in knobs_of(operator):
        table: Counter[tuple[object, ...]] = Counter()
        for r in rows:
            table[tuple(getattr(r.settings, name) for name in knob.fields)] += r.networks
        sampled = Counter(tuple(getattr(op, name) for name in knob.fields) for op in drawn)
        total = sum(table.values())
        distance = sum(abs(table[v] / total - sampled[v] / n) for v in table | sampled) / 2
        # The expected distance of n draws from the table itself, all knobs else exact.
        noise = sum((c / total / n * 2 / np.pi) ** 0.5 for c in table.values()) / 2
        assert distance < 0.06 + noise, knob.fields


def test_common_windows_are_drawn_often(prior: Prior) -> None:
    """A uniform draw of seven sizes would give these two in 2 of 7 draws."""
    rng = np.random.default_rng(0)
    kernels = Counter(prior.sample("conv2d", rng).kernel for _ in range(1000))
    assert kernels[(1, 1)] + kernels[(3, 3)] > 800


def test_prior_names_what_is_missing() -> None:
    prior = Prior(TOY)
    with pytest.raises(SettingsError, match=r"operator='pool': use one of conv2d"):
        prior.sample("pool", np.random.default_rng(0))
    with pytest.raises(SettingsError, match=r"operator=conv2d: the table has none; it has dense"):
        prior.sample("conv2d", np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"smoothing=-1: must be at least 0"):
        Prior(TOY, smoothing=-1)


def test_every_setting_of_every_operator_is_in_its_chain() -> None:
    for operator, cls in OPERATOR_SETTINGS.items():
        knobs = knobs_of(operator)
        drawn = [name for knob in knobs for name in knob.fields]
        known = {f.name for f in fields(cls)} - {*NOT_CRAWLED}
        if cls.epilogues == ("none",):
            known.discard("epilogue")
        assert sorted(drawn) == sorted(known), operator
        for knob in knobs:
            before = drawn[: drawn.index(knob.fields[0])]
            assert all({*condition} <= {*before} for condition in knob.backoff), (operator, knob)


def test_the_epilogue_follows_the_window_by_hand() -> None:
    def conv(kernel: int, epilogue: str, networks: int) -> ZooRow:
        op = Conv2d(
            batch=1, in_channels=8, height=8, width=8, out_channels=8, kernel=kernel, epilogue=epilogue
        )
        return row(op, networks)

    rows = [conv(3, "bias_relu", 3), conv(3, "bias", 1), conv(1, "none", 4)]
    given = [r.settings for r in rows]
    paper = Prior(rows, smoothing=0)
    # Half of the tasks are 3x3, and 3 of 4 of these have a ReLU; no 1x1 has one.
    assert paper.probability(given[0]) == pytest.approx(1 / 2 * 3 / 4)
    assert paper.probability(replace(given[2], epilogue="bias_relu")) == 0
    # Of a 1x1 there is one row with one value: w = 1 / (1 + 1) under the full condition and under the window;
    # of all, 3 of 8 have bias and ReLU.
    smooth = Prior(rows)
    other = [replace(given[2], epilogue=name) for name in ("none", "bias", "bias_relu")]
    total = sum(smooth.probability(op) for op in other)
    assert smooth.probability(other[2]) / total == pytest.approx(1 / 2 * 1 / 2 * 3 / 8)


def test_a_convolution_derives_its_winograd_form_and_capsules() -> None:
    size: dict[str, Any] = {"batch": 1, "in_channels": 64, "height": 14, "width": 14, "out_channels": 32}
    conv = Conv2d(**size, kernel=3, padding=1, epilogue="bias_add_relu")
    rows = [row(conv, 2), row(replace(conv, epilogue="bias_add"), 3, ("resnet18",))]
    winograd = WinogradConv2d(**size, padding=1, epilogue="bias")  # which has no residual
    capsules = CapsuleConv2d(
        **{**size, "in_channels": 4, "out_channels": 2}, kernel=3, padding=1, capsule_size=4
    )
    derived = {r.settings: r for r in with_derived(rows)[2:]}
    assert set(derived) == {winograd, capsules}
    assert derived[winograd].networks == 5
    assert derived[winograd].evaluation == ("resnet18",)


def test_a_convolution_of_video_derives_its_channel_separated_form() -> None:
    size: dict[str, Any] = {"batch": 1, "in_channels": 64, "depth": 4, "height": 14, "width": 14}
    window: dict[str, Any] = {"kernel": (3, 1, 1), "stride": (2, 1, 1), "padding": (1, 0, 0)}
    conv = Conv3d(**size, out_channels=64, **window, epilogue="bias_add_relu")
    separated = GroupConv3d(**size, out_channels=64, groups=64, **window, epilogue="bias")
    rows = with_derived([row(conv, 2, ("r3d_18",))])
    assert [r.settings for r in rows] == [conv, separated]
    assert (rows[1].networks, rows[1].evaluation) == (2, ("r3d_18",))
    derive = GroupConv3d.derive
    assert derive(replace(conv, out_channels=128)) is None  # it would not be one filter a channel
    assert derive(replace(conv, kernel=1, padding=0)) is None
    assert derive(replace(conv, in_channels=1, out_channels=1)) is None


@pytest.mark.parametrize(
    ("operator", "change"),
    [
        ("conv2d_winograd", {"stride": (2, 2)}),
        ("conv2d_winograd", {"kernel": (5, 5)}),
        ("conv2d_winograd", {"dilation": (2, 2)}),
        ("capsule_conv2d", {"in_channels": 24}),
        ("capsule_conv2d", {"dilation": (2, 2)}),
    ],
)
def test_other_convolutions_derive_nothing(operator: str, change: dict[str, Any]) -> None:
    conv = Conv2d(batch=1, in_channels=32, height=14, width=14, out_channels=32, kernel=3)
    derive = OPERATOR_SETTINGS[operator].derive
    assert derive(conv) is not None
    assert derive(replace(conv, **change)) is None
