"""Constants of `python -m benchmarks.families`."""

POOL = "data/networks"
"""Tasks of three networks with 40 measured programs each."""

DEVELOPED_ON = ("resnet18",)
"""Networks used to choose the constants of the shared surrogate; the other networks test them."""

GROUPINGS = ("operator_count", "core_operator", "operator_sequence", "loop_nest", "one", "each")

SHOWN = 2 / 3
"""Share of a pool's programs that a seed draws, so that seeds differ."""

BASE = "shares"
"""Live search that serves as the reference for the others."""

REUSE = "shares, reuse"
"""Live search with ETO's reuse; planners with reuse get three quarters of its seconds."""

THREE_QUARTERS = "headroom, reuse, shared, 3/4 of the search"
"""Live search in three quarters of the seconds that the search of REUSE needs."""

TRIALS_A_TASK = 128
"""Programs a task of stock's search: the schedulers choose the tasks that get the second half of them."""
