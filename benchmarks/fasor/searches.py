"""Searches of the benchmark, as overrides of `foretune tune` by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..networks import contest

EXPLORING = ("search=fasor", "search.templates=0")
"""Overrides of the high-efficiency mode in the whole space, without templates."""

EVOLVED = (*EXPLORING, "search/strategy=evolutionary")
"""Overrides that replace the deep Q-network's programs with 64 programs of MetaSchedule's evolution."""

SEARCHES: Mapping[str, Sequence[str]] = {
    "default": (),
    "stock": (contest.STOCK, "64"),
    "fasor": EXPLORING,
    "fasor_high_quality": (
        *("search=fasor_high_quality", "search.templates=0", "search.reuse=off", "search.rounds=12"),
        *("search.top_k=96", "search.extra_rounds=16", "search.stop.expected_improvement=0.001"),
        "search.stop.patience=4",
    ),
    "fasor_templates": ("search=fasor",),
    "high_quality_templates": ("search=fasor_high_quality",),
    "without_pretuned": (*EXPLORING, "search.starts=known"),
    "random": (*EVOLVED, "search.strategy.population_size=64", "search.strategy.generations=0"),
    "evolutionary": (*EVOLVED, "search.strategy.population_size=32", "search.strategy.generations=1"),
    "pretuned": ("search.starts=pretuned",),
    "sub_space_6": ("search.space=sub_space", "search.sub_space.primitives=6"),
    "dqn": ("search/strategy=dqn",),
    "high_efficiency": ("search=high_efficiency",),
}
"""Searches with the shipped models."""


def rated_by(model: str) -> tuple[str, str]:
    """Overrides that rate programs by a cost model, and walks by the draft model next to it."""
    return f"checkpoint={model}", f"search.strategy.environment={model}-draft"


def walked_by(explorer: str) -> str:
    """Override that walks with an explorer."""
    return f"search.strategy.checkpoint={explorer}"


PRETUNED = "search.pretuned.file={source}/pretuned.parquet"

PUBLISHED = (
    *("search=fasor", "search.templates=0", "search.space=sub_space", "search.sub_space.primitives=7"),
    *(*rated_by("{moved}/plain"), walked_by("{source}/explorer"), PRETUNED),
)
"""Overrides of all parts of the paper, in high-efficiency mode."""

OURS = (*rated_by("{moved}/mixed"), walked_by("{source}/explorer"), PRETUNED)

MOVED: Mapping[str, Sequence[str]] = {
    "default": (),
    "stock": (contest.STOCK, "64"),
    "published": PUBLISHED,
    "published_high_quality": (*PUBLISHED, "search/strategy=dqn_high_quality"),
    "n_p_5": (*PUBLISHED, "search.sub_space.primitives=5"),
    "n_p_6": (*PUBLISHED, "search.sub_space.primitives=6"),
    "n_p_8": (*PUBLISHED, "search.sub_space.primitives=8"),
    "random_n_p_7": (*PUBLISHED, "search.sub_space.weights={moved}/random_weights.json"),
    "whole_space": (*PUBLISHED, "search.space=stock"),
    "unadapted": (*PUBLISHED, *rated_by("{source}/model")),
    "scratch": (*PUBLISHED, *rated_by("{moved}/scratch")),
    "unstarted": (*PUBLISHED, "search.starts=known"),
    "unguided": (*PUBLISHED, walked_by("{source}/explorer-without-ratio")),
    "annealing": (
        *("search=fasor", "search.templates=0", "search/strategy=annealing", "search.strategy.chains=16"),
        *("search.strategy.steps=3", "checkpoint={moved}/plain", PRETUNED),
    ),
    "ours": ("search=fasor", *OURS),
    "ours_high_quality": ("search=fasor_high_quality", *OURS),
}
"""Searches after a move to a new device; `{source}` and `{moved}` are the folders of `move`.

`published` has all parts of the paper: few-shot fine-tuning, the sub-space, pretuned starts and the deep
Q-network. Its high-quality mode walks until no iteration finds a better program. Neither measures a task.
The next ones exchange one part (Figure 8): the number of tuned primitives and their choice, the cost models,
the starts, the reward's term of the roofline, and the deep Q-network. `annealing` also leaves the sub-space,
because it mutates all decisions. `ours` adds templates, searches the whole space, and keeps half of the
source's weights; its high-quality mode measures.
"""
