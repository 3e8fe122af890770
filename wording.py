"""Numbers, times and counts as text, for pages, terminals and captions."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Sequence

MISSING = "-"
"""Text in place of a value that is unknown, undefined or infinite."""


def significant(number: float, digits: int = 3) -> str:
    """Rounded to `digits` significant digits, without an exponent: 1836.2 -> 1,836, 0.01234 -> 0.0123."""
    if not math.isfinite(number):
        return MISSING
    if number == 0:
        return "0"
    return f"{number:,.{min(max(digits - 1 - math.floor(math.log10(abs(number))), 0), 9)}f}"


def decimal(number: float | None, digits: int = 3) -> str:
    """0.812, or MISSING."""
    return MISSING if number is None or not math.isfinite(number) else f"{number:.{digits}f}"


def milliseconds(seconds: float | None) -> str:
    """82.1 ms, or MISSING."""
    return MISSING if seconds is None or not math.isfinite(seconds) else f"{significant(seconds * 1e3)} ms"


def difference(value: float) -> str:
    """Largest difference of two outputs: 2.0e-06, or `not finite` if only one of them is NaN or infinite."""
    return f"{value:.1e}" if math.isfinite(value) else "not finite"


def times(ratio: float | None) -> str:
    """1.76x, or MISSING."""
    return MISSING if ratio is None or not math.isfinite(ratio) else f"{significant(ratio)}x"


def signed_ms(seconds: float) -> str:
    """Milliseconds with a sign: +0.120, -1.50; or MISSING."""
    if not math.isfinite(seconds):
        return MISSING
    return f"{'-' if seconds < 0 else '+'}{significant(abs(seconds) * 1e3)}"


def duration(seconds: float) -> str:
    """14.3 s, 2 min 05 s, 1 h 07 min; an estimate below 0 is 0, and one without a limit MISSING."""
    if not math.isfinite(seconds):
        return MISSING
    seconds = max(seconds, 0.0)
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def counted(number: float, noun: str, plural: str = "") -> str:
    """A number with its noun: no tasks, 1 task, 1,294 tasks; `plural` is the noun with an s by default."""
    several = plural or f"{noun}s"
    return {0: f"no {several}", 1: f"1 {noun}"}.get(round(number), f"{number:,.0f} {several}")


def part_of(number: float, whole: float, noun: str, plural: str = "") -> str:
    """A part of a number of things: 2 of 3 tasks, none of 3 tasks, no task of one, no tasks of none."""
    if not round(number) and round(whole) < 2:
        return f"no {noun}" if round(whole) else counted(0, noun, plural)
    some = f"{number:,.0f}" if round(number) else "none"
    return f"{some} of {counted(whole, noun, plural)}"


def visible(text: str) -> str:
    """The text without characters that control a terminal; newlines and tabs stay.

    Names come from networks and datasets of other people. Their escape codes could recolour the terminal,
    move its cursor, or reverse the order of the letters.
    """
    return _CONTROLS.sub("", text)


_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def shell_command(*words: object) -> str:
    """A command for a POSIX shell, with quotes around words that need them."""
    return shlex.join(str(word) for word in words)


def verb(number: float, one: str, several: str) -> str:
    """The verb that goes with a number: `one` for 1, else `several`."""
    return one if number == 1 else several


def listed(words: Sequence[str]) -> str:
    """a, b and c"""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def capitalised(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def target_words(target: str) -> str:
    """Kind and attributes of a JSON target, without tag, keys and host; other texts unchanged."""
    try:
        attributes = json.loads(target)
        kind = attributes.pop("kind")
    except (ValueError, AttributeError, KeyError):
        return target
    told = {name: value for name, value in attributes.items() if name not in ("tag", "keys", "host")}
    return ", ".join([kind, *(f"{name} {value}" for name, value in told.items())])
