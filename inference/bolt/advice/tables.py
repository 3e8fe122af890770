"""Facts and tables of an advice."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from ....page import Fact, Table, columns
from ....wording import MISSING, listed, milliseconds, part_of, signed_ms, significant
from .activations import APART, NONE
from .content import ActivationAdvice, Advice, AlignmentAdvice

DISTURBED = "timing disturbed"


def banner(advice: Advice) -> str:
    """A warning if other work of the machine disturbed the timing; otherwise empty."""
    if not advice.disturbed:
        return ""
    return (
        "Other work of the machine disturbed the timing. No saving is claimed. When the machine is quiet, "
        "delete the output folder, which keeps the measurements, and repeat the command."
    )


def facts(advice: Advice) -> list[Fact]:
    """Key figures."""
    verb = "measured" if advice.measured else f"predicted by {advice.checkpoint}"
    verb += " while other work ran" if advice.disturbed else ""
    found = [
        Fact(
            "Network",
            milliseconds(advice.network_s),
            f"{part_of(advice.tasks - len(advice.unknown), advice.tasks, 'task')}, {verb}",
        ),
        Fact("Layers", f"{advice.layers}", "convolutions and linear layers that can be changed"),
    ]
    now = [one for one in advice.activations if one.calls]
    others = [one for one in advice.activations if one.name != NONE and not one.calls and one.everywhere]
    if now and others:
        found.append(_cheapest(others[0], advice.disturbed))
    if advice.aligned:
        saved_s = sum(one.saved_s for one in best_directions(advice) if one.saved_s > 0)
        detail = f"saved at most, by multiples of {advice.alignment}"
        if advice.disturbed:
            found.append(Fact("Aligned widths", DISTURBED, f"{milliseconds(saved_s)} {detail}; not claimed"))
        else:
            found.append(Fact("Aligned widths", milliseconds(saved_s), detail))
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


def _cheapest(one: ActivationAdvice, disturbed: bool) -> Fact:
    """The cheapest activation that the network does not have."""
    label, change = f"All {words(one.name)}", f"{signed_ms(one.extra_s)} ms"
    share = f"{one.share:+.1%} of the network"
    if disturbed:
        return Fact(label, DISTURBED, f"{change}, {share}; not claimed")
    if not one.clear:
        differ = f"the turns of the measurement differ by {milliseconds(one.noise_s)}"
        return Fact(label, "no clear difference", f"{change}, {share}, and {differ}")
    detail = f"{share}; the cheapest activation that it does not have"
    return Fact(label, change, detail, good=one.extra_s <= 0)


def best_directions(advice: Advice) -> list[AlignmentAdvice]:
    """The direction that saves more, for each misaligned layer."""
    best: dict[str, AlignmentAdvice] = {}
    for one in advice.aligned:  # sorted by saving, the largest first
        best.setdefault(one.task, one)
    return list(best.values())


def sections(advice: Advice) -> list[Table]:
    """All tables for which the advice has rows."""
    return [table for table in (_activations(advice), _alignment(advice), _deepening(advice)) if table]


def _activations(advice: Advice) -> Table:
    rows = [
        [
            words(one.name),
            f"{one.calls}" if one.calls else MISSING,
            signed_ms(one.extra_s) if one.layers else MISSING,
            f"{one.share:+.2%}" if one.layers else MISSING,
            significant(one.noise_s * 1e3) if one.noise_s else MISSING,
            f"{one.layers} of {one.of}",
        ]
        for one in advice.activations
    ]
    note = (
        "Time that one run of the network takes in addition with the activation in every layer that has one "
        "now. The programs of each layer stay the same, followed by the other activation."
    )
    if any(one.noise_s for one in advice.activations):
        note += (
            " Noise is the difference between the turns of the measurement; a smaller change is not clear."
        )
    if any(one.name in APART for one in advice.activations):
        names = listed([words(name) for name in APART])
        note += f" As a fused step: {names}. An import from PyTorch runs them apart, at a higher cost."
    heads = columns("Activation", "Calls now", "Takes ms", "Share", "Noise ms", "Layers compared")
    heads[4] = replace(heads[4], optional=True)
    return Table("Activations", heads, rows, note)


def _alignment(advice: Advice) -> Table:
    rows = [
        [
            one.layer,
            f"{one.weight}",
            ", ".join(f"{name.partition('_')[0]} {old}>{new}" for name, (old, new) in one.widths.items()),
            significant(one.own_s * 1e3),
            significant(one.aligned_s * 1e3),
            signed_ms(-one.saved_s),
            f"{-one.share:+.2%}",
        ]
        for one in advice.aligned
    ]
    note = (
        f"Layers whose widths are not multiples of {advice.alignment}. Both widths of a layer change, since "
        "neighbours share them; a network must change all layers of a width. If a wider layer takes hardly "
        "longer, its additional channels are free."
    )
    heads = ("Layer", "Calls", "Widths", "Now ms", "Aligned ms", "Takes ms", "Share")
    return Table("Alignment", columns(*heads), rows, note)


def _deepening(advice: Advice) -> Table:
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
        "A 1x1 convolution with as many channels, bias and the layer's activation, added after each call of "
        "a convolution, the cheapest first. It runs as a task of its own. Together is the sum of the rows so "
        "far."
    )
    heads = ("After", "Calls", "Channels", "Takes ms", "Share", "Together", "Parameters")
    return Table("1x1 convolutions", columns(*heads), rows, note)


def words(name: str) -> str:
    """Name of an activation in words."""
    return "no activation" if name == NONE else name
