"""Names that a user may have meant."""

from __future__ import annotations

import pytest
from foretune.suggestions import option_names, similar_option

KNOWN = [
    *("search", "search/strategy", "search.top_k", "search.eto.top_k", "search.strategy.population"),
    *("trainer.max_epochs", "seed", "budget_s", "train.trainer.max_epochs"),
]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("sead", "seed"),
        ("top_k", "search.top_k"),
        ("topk", "search.top_k"),
        ("eto.top_k", "search.eto.top_k"),
        ("max-epochs", "trainer.max_epochs"),
        ("trainr.max_epochs", "trainer.max_epochs"),
        ("strategy", "search/strategy"),
        ("search.strategy.popluation", "search.strategy.population"),
        ("minutes", "budget_s"),
        ("+seeds", "seed"),
        ("xyzzy", None),
    ],
)
def test_the_meant_option(name: str, meant: str | None) -> None:
    assert similar_option(name, KNOWN) == meant


def test_names_of_groups_come_before_their_options() -> None:
    assert option_names({"a": 1, "b": {"c": {"d": 2}}, "e": {}}) == ["a", "b", "b.c", "b.c.d", "e"]
