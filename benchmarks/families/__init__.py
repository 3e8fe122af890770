"""FamilySeer's families, surrogates and foresee tuning on this project's records, by replay, and live.

python -m benchmarks.families --part accuracy|replay|live
"""

POOL = "data/networks"
"""Tasks of three networks with 40 measured programs each."""

DEVELOPED_ON = ("resnet18",)
"""Networks on which the constants of the shared surrogate were chosen; the others say how well they do."""

GROUPINGS = ("operator_count", "core_operator", "operator_sequence", "loop_nest", "one", "each")

SHOWN = 2 / 3
"""Share of a pool's programs that a seed draws, so that seeds differ."""

BASE = "shares"
"""Live search that the others are compared with."""

REUSE = "shares, reuse"
"""Live search with what ETO's reuse saves, of whose seconds planners with reuse have three quarters."""

THREE_QUARTERS = "headroom, reuse, shared, 3/4 of the search"
"""Live search in three quarters of the seconds that the search of REUSE takes."""
