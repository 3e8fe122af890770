"""Tables of the comparisons by which constants were chosen, and of what did not help."""

from __future__ import annotations

from .reading import Results, markdown

NOT_TAKEN = "not taken"


def _rows(results: Results, taken: bool) -> list[list[str]]:
    return [
        [
            f"`{one['setting']}`" if one["setting"].startswith("search.") else one["setting"],
            one["what"],
            one["on"],
            result.machine,
            one["finding"].format(**one["figures"]),
            one["decision"],
        ]
        for result in results.of("constants")
        for one in result.values["findings"]
        if taken != one["decision"].startswith(NOT_TAKEN)
    ]


HEADS = ["setting or part", "compared", "on", "machine", "found", "decision"]


def chosen(results: Results) -> str:
    """Comparisons that chose a setting."""
    return markdown(
        HEADS,
        _rows(results, taken=True),
        "With the searches and models of their time. A ratio of latencies below 1 is a gain of the first.",
    )


def not_chosen(results: Results) -> str:
    """Comparisons after which nothing was changed."""
    return markdown(HEADS, _rows(results, taken=False))
