"""Names that a user may have meant instead of an unknown one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

RENAMED = {"minutes": "budget_s", "checkpoints": "checkpoint"}
"""Earlier names of options."""


def option_names(values: Any, parent: str = "") -> list[str]:
    """Dotted names of all options in nested settings, groups included."""
    names = []
    for key in values if isinstance(values, Mapping) else ():
        name = f"{parent}{key}"
        names += [name, *option_names(values[key], f"{name}.")]
    return names


def similar_option(name: str, known: Iterable[str]) -> str | None:
    """The known option that `name` most likely means: the same or a similar name, in this or another group.

    Names are dotted; those of presets have slashes, and those of options that must be added start with +.
    """
    plain: dict[str, str] = {}
    for option in known:
        plain.setdefault(_plain(option), option)
        if "/" in option:  # search/strategy=... selects what search.strategy... are the options of
            plain[_plain(option)] = option
    wanted = _plain(name)
    if RENAMED.get(wanted) in plain:
        return plain[RENAMED[wanted]]
    nested = [option for option in plain if option.endswith(f".{wanted}")]
    if nested:
        return plain[min(nested, key=lambda option: (option.count("."), len(option)))]
    if close := get_close_matches(wanted, plain, n=1, cutoff=0.75):
        return plain[close[0]]
    parent, _, own = wanted.rpartition(".")
    siblings = {option.rpartition(".")[2]: option for option in plain if option.rpartition(".")[0] == parent}
    if close := get_close_matches(own, siblings, n=1):
        return plain[siblings[close[0]]]
    leaves: dict[str, str] = {}
    for option in sorted(plain, key=lambda option: option.count(".")):
        leaves.setdefault(option.rpartition(".")[2], option)
    close = get_close_matches(own, leaves, n=1, cutoff=0.8)
    return plain[leaves[close[0]]] if close else None


def _plain(name: str) -> str:
    return name.lstrip("+~").replace("/", ".").replace("-", "_")
