"""A comparison names a winner only if the test tasks are enough to tell it from chance."""

from __future__ import annotations

import json

from foretune.models.metrics.margins import LEAST_TASKS
from foretune.page import Facts
from foretune.training.compare import COLUMNS, comparison_table
from foretune.training.comparison.report import comparison_page
from foretune.training.comparison.result import ModelComparison
from support.made_up_comparison import made_up_comparison

MANY = tuple(f"operator{number}" for number in range(LEAST_TASKS))


def headline(comparison: ModelComparison) -> dict[str, tuple[str, str, bool | None]]:
    facts = comparison_page(comparison, "random").parts[0]
    assert isinstance(facts, Facts)
    return {fact.label: (fact.value, fact.detail, fact.good) for fact in facts.facts}


def test_a_model_that_is_better_on_enough_tasks_wins() -> None:
    comparison = made_up_comparison("good", "random", operators=MANY, perfect=("good",))
    standing = comparison.standing("spearman")
    assert standing is not None and standing.clear
    assert (standing.best, standing.mean, standing.tasks) == ("good", 1.0, LEAST_TASKS)
    value, detail, good = headline(comparison)["Best Spearman"]
    assert value == "1.000" and detail.startswith("by good; +") and good
    table = comparison_table(comparison)
    assert (0, list(COLUMNS).index("spearman") + 1) in table.bold and not table.remarks
    written = json.loads(json.dumps(comparison.to_json("random"), allow_nan=False))
    assert written["standings"]["spearman"]["level"] == []


def test_a_split_with_few_tasks_has_no_winner() -> None:
    """Random order beats another random order, and even a perfect model proves nothing on two tasks."""
    for perfect in ((), ("good",)):
        comparison = made_up_comparison("good", "random", perfect=perfect)
        assert headline(comparison)["Best Spearman"] == (
            *("no clear winner", f"2 tasks are too few to decide; it takes {LEAST_TASKS}", None),
        )
        table = comparison_table(comparison)
        assert not table.bold
        assert table.remarks == [
            "No model is clearly the best by spearman, pairs, top-1, top-5 and peak@10: 2 held-out tasks are "
            f"too few to decide, and it takes {LEAST_TASKS}. To decide, raise split.test or generate more "
            "tasks."
        ]


def test_models_within_chance_of_each_other_have_no_winner() -> None:
    comparison = made_up_comparison("a", "b", "random", operators=MANY)
    standing = comparison.standing("spearman")
    assert standing is not None and len(standing.level) == 2
    value, detail, _ = headline(comparison)["Best Spearman"]
    assert value == "no clear winner" and f"may be as good on {LEAST_TASKS} tasks" in detail
    assert "the differences on 6 held-out tasks may be chance" in comparison_table(comparison).remarks[0]


def test_a_model_alone_is_the_best() -> None:
    standing = made_up_comparison("only").standing("top_1")
    assert standing is not None and standing.clear and standing.best == "only"
    assert not comparison_table(made_up_comparison("only")).bold


def test_a_metric_without_a_value_has_no_standing() -> None:
    """With 20 programs a task, recall@10 is defined; a comparison without any task of that size has none."""
    comparison = made_up_comparison("a", "b")
    assert comparison.standing("recall_10") is not None
    for entry in comparison.entries:
        for task in entry.metrics.per_task:
            object.__setattr__(task, "recall_10", float("nan"))
        object.__setattr__(entry.metrics, "recall_10", float("nan"))
    assert comparison.standing("recall_10") is None
