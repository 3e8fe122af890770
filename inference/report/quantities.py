"""Times as a report writes them."""

from __future__ import annotations

from ...page import significant


def milliseconds(seconds: float) -> str:
    """82.1 ms"""
    return f"{significant(seconds * 1e3)} ms"


def duration(seconds: float) -> str:
    """14.3 s, 2 min 05 s, 1 h 07 min"""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
