"""Whole networks tuned with and without reuse, in turns, and timed side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

NETWORKS = ("resnet18", "mobilenetv2", "bert_base", "densenet121")
"""Networks of the part by default; DenseNet-121 has over 90 tasks."""

LARGE = ("densenet121",)
"""Networks whose second and further runs come last."""

_TAKING_OVER = ("search.reuse=auto", "search.auto.starts=4")

SEARCHES: Mapping[str, tuple[str, ...]] = {
    "off": ("search.reuse=off",),
    "auto": _TAKING_OVER,
    "fewer": ("search.reuse=auto", "search.auto.starts=0"),
    "short": (*_TAKING_OVER, "search.auto.source_rounds=3", "search.auto.depthwise_rounds=1"),
    "shared": (*_TAKING_OVER, "search.share_surrogate=true"),
    "few_heavy": (*_TAKING_OVER, "search.auto.heavy_share=0.2"),
    "paper": ("search.reuse=paper", "search.eto.trials=64"),
    "two_rounds": (*_TAKING_OVER, "search.auto.depthwise_rounds=2"),
}
"""Overrides of `foretune tune` by the name of the search in a result.

All but `fewer` reuse up to four programs, like a search without templates; `fewer` reuses none, like a search
with templates. `short` gives sources and depthwise convolutions fewer rounds, `shared` also shares the
surrogate among the tasks of a family, `paper` is ETO as published with a backend of 64 trials, `few_heavy`
gives all rounds to tasks of a fifth alone, and `two_rounds` gives depthwise convolutions two.
"""

BY_DEFAULT = ("off", "auto", "fewer")
"""Searches of a run by default."""


def turns(networks: Sequence[str], runs: int) -> list[tuple[str, int]]:
    """Networks with their seeds in the order of the runs: one of each first, further ones of LARGE last."""
    rounds = [(network, seed) for seed in range(runs) for network in networks]
    return sorted(rounds, key=lambda one: one[1] > 0 and one[0] in LARGE)
