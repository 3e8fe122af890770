"""Random networks: families run, differ by seed, and have the operators that draw from them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from foretune.compiler.operators import OPERATOR_SETTINGS, SettingsError
from foretune.dataset.sampling.tasks.random_image_networks import searched_network, wired_network
from foretune.dataset.sampling.tasks.random_networks import Family, RandomNetworks, families_of
from foretune.dataset.sampling.zoo.operator_log import log_operators

FAMILIES = {name: families_of(cls) for name, cls in OPERATOR_SETTINGS.items()}
EVERY_FAMILY = tuple(dict.fromkeys(family for families in FAMILIES.values() for family in families))


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_a_family_makes_networks_that_run_and_differ(family: Family) -> None:
    rng = np.random.default_rng(0)
    found = [log_operators(lambda: family(rng)) for _ in range(4)]
    kinds = {frozenset(log.calls) for log in found}
    assert len(kinds) == 4
    promised = {operator for operator, families in FAMILIES.items() if family in families}
    seen = {settings.operator for log in found for settings in log.calls}
    assert promised - {"frobenius_norm", "group_conv2d", "batch_norm"} <= seen  # those are left to chance
    assert not sum((log.skipped for log in found), Counter())


@pytest.mark.parametrize(
    "operator", [n for n, cls in OPERATOR_SETTINGS.items() if FAMILIES[n] or cls.made_of]
)
def test_every_operator_is_found(operator: str) -> None:
    sampler, rng = RandomNetworks(), np.random.default_rng(1)
    assert {sampler.sample(operator, rng).operator for _ in range(3)} == {operator}


def test_a_seed_fixes_the_operators() -> None:
    def draw(seed: int) -> list[str]:
        sampler, rng = RandomNetworks(), np.random.default_rng(seed)
        return [sampler.sample(operator, rng).label for operator in ("conv2d", "dense", "conv2d") * 4]

    assert draw(3) == draw(3)
    assert draw(3) != draw(4)


def test_a_searched_network_is_of_inverted_bottlenecks() -> None:
    """Seven stages or more have a depthwise convolution; projections of stride 1 have residuals."""
    calls = log_operators(lambda: searched_network(np.random.default_rng(2))).calls
    assert sum(s.operator == "depthwise_conv2d" for s in calls.elements()) >= 7
    assert {s.kernel for s in calls if s.operator == "depthwise_conv2d"} <= {(3, 3), (5, 5), (7, 7)}  # type: ignore[attr-defined]
    assert "bias_add" in {s.epilogue for s in calls}


def test_a_wired_network_is_of_separable_convolutions() -> None:
    calls = log_operators(lambda: wired_network(np.random.default_rng(2))).calls
    depthwise = sum(s.operator == "depthwise_conv2d" for s in calls.elements())
    pointwise = sum(s.operator == "conv2d" for s in calls.elements())
    assert depthwise >= 4 * 5  # four stages of five nodes or more
    assert pointwise == depthwise + 2  # the stem and the last convolution have none


def test_an_unknown_operator_is_named() -> None:
    with pytest.raises(SettingsError, match="operator='conv9d': use one of conv2d"):
        RandomNetworks().sample("conv9d", np.random.default_rng(0))
