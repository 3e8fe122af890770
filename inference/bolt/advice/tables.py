"""Tables of an advice as text, for the terminal and the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from ....page import Fact, significant
from ...report.quantities import milliseconds
from .activations import APART, NONE
from .content import Advice, AlignmentAdvice


@dataclass(frozen=True)
class AdviceSection:
    """Table with a title and what to know of it; all cells are plain text."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str


def facts(advice: Advice) -> list[Fact]:
    """Key figures."""
    verb = "measured" if advice.measured else f"predicted by {advice.checkpoint}"
    found = [
        Fact(
            "Network",
            milliseconds(advice.network_s),
            f"{advice.tasks - len(advice.unknown)} of {advice.tasks} tasks, {verb}",
        ),
        Fact("Layers", f"{advice.layers}", "convolutions and linear layers that can be built otherwise"),
    ]
    now = [one for one in advice.activations if one.calls]
    others = [one for one in advice.activations if one.name != NONE and not one.calls and one.everywhere]
    if now and others:
        best = others[0]
        found.append(
            Fact(
                f"All {words(best.name)}",
                f"{_signed(best.extra_s)} ms",
                f"{best.share:+.1%} of the network; the cheapest of the activations that it does not have",
                good=best.extra_s <= 0,
            )
        )
    if advice.aligned:
        saved_s = sum(one.saved_s for one in best_directions(advice) if one.saved_s > 0)
        found.append(
            Fact(
                "Aligned widths",
                milliseconds(saved_s),
                f"saved at most, by multiples of {advice.alignment}",
            )
        )
    if advice.deeper:
        free = advice.free
        found.append(
            Fact(
                "Nearly free 1x1",
                f"{len(free)} of {len(advice.deeper)}",
                f"together {sum(one.share for one in free):.1%} of the network",
            )
        )
    return found


def best_directions(advice: Advice) -> list[AlignmentAdvice]:
    """The direction of each misaligned layer that saves more."""
    best: dict[str, AlignmentAdvice] = {}
    for one in advice.aligned:  # sorted, the largest saving first
        best.setdefault(one.task, one)
    return list(best.values())


def sections(advice: Advice) -> list[AdviceSection]:
    """All tables that the advice has rows for."""
    made = (_activations(advice), _alignment(advice), _deepening(advice))
    return [section for section in made if section.rows]


def _activations(advice: Advice) -> AdviceSection:
    rows = [
        [
            words(one.name),
            f"{one.calls}" if one.calls else "-",
            _signed(one.extra_s) if one.layers else "-",
            f"{one.share:+.2%}" if one.layers else "-",
            f"{one.layers} of {one.of}",
        ]
        for one in advice.activations
    ]
    note = (
        "What one run of the network takes more with the activation in every layer that has one now, by the "
        "same programs of each layer with another activation behind them."
    )
    if any(one.name in APART for one in advice.activations):
        names = ", ".join(words(name) for name in APART)
        note += f" As a fused step: {names}, which the import of PyTorch's runs apart, at a higher cost."
    heads = ("Activation", "Calls now", "Takes ms", "Share", "Layers compared")
    return AdviceSection("Activations", heads, rows, note)


def _alignment(advice: Advice) -> AdviceSection:
    rows = [
        [
            one.layer,
            f"{one.weight}",
            ", ".join(f"{name.partition('_')[0]} {old}>{new}" for name, (old, new) in one.widths.items()),
            significant(one.own_s * 1e3),
            significant(one.aligned_s * 1e3),
            _signed(-one.saved_s),
            f"{-one.share:+.2%}",
        ]
        for one in advice.aligned
    ]
    note = (
        f"Layers whose widths are no multiples of {advice.alignment}. Both widths of a layer change, "
        "as neighbours share them; a network must change all layers of a width. A layer that takes hardly "
        "longer with more channels has them for nothing."
    )
    heads = ("Layer", "Calls", "Widths", "Now ms", "Aligned ms", "Takes ms", "Share")
    return AdviceSection("Alignment", heads, rows, note)


def _deepening(advice: Advice) -> AdviceSection:
    together = accumulate(one.share for one in advice.deeper)
    rows = [
        [
            one.layer,
            f"{one.weight}",
            f"{one.channels}",
            significant(one.extra_s * 1e3),
            f"{one.share:.2%}",
            f"{so_far:.2%}",
            f"{one.parameters:,}",
        ]
        for one, so_far in zip(advice.deeper, together, strict=True)
    ]
    note = (
        "A 1x1 convolution of as many channels, with bias and the layer's activation, behind each call of a "
        "convolution, the cheapest first; it runs as a task of its own. Together adds up the rows so far."
    )
    heads = ("Behind", "Calls", "Channels", "Takes ms", "Share", "Together", "Parameters")
    return AdviceSection("1x1 convolutions", heads, rows, note)


def _signed(seconds: float) -> str:
    """Milliseconds with a sign: +0.120, -1.50"""
    return f"{'-' if seconds < 0 else '+'}{significant(abs(seconds) * 1e3)}"


def words(name: str) -> str:
    """Name of an activation as text."""
    return "no activation" if name == NONE else name
