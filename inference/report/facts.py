"""Summary, warnings and notes of a report."""

from __future__ import annotations

from collections import Counter, defaultdict

from ...page import Fact
from ...wording import (
    capitalised,
    counted,
    difference,
    duration,
    listed,
    milliseconds,
    part_of,
    significant,
    times,
    verb,
)
from ..run.result import BY_LOAD, BY_STOCK, TUNED, UNTUNED, Contestant, TuneResult, untuned_by_tasks_s
from .alternatives import alternative_facts
from .coverage import coverage_facts
from .energy import estimate_energy
from .network_time import time_notes
from .networks import network_facts
from .reuse import reuse_facts


def facts(result: TuneResult) -> list[Fact]:
    """The whole summary: a notice of a dry run comes first, then the headline."""
    return [*_simulated(result), *headline(result), *details(result)]


def headline(result: TuneResult) -> list[Fact]:
    """Speed over the best rival, duration, and outputs; for a set of networks, how many were tuned."""
    own = [task for task in result.tasks if task.weight]
    tuned = sum(task.tuned_latency_s is not None for task in own)
    ready = "" if result.library_s is None else f"network ready after {duration(result.library_s)}; "
    return [
        *_speeds(result)[:1],
        Fact("Time taken", duration(result.total_s), f"{ready}{part_of(tuned, len(own), 'task')} tuned"),
        *(network_facts(result) or [_outputs(result)]),
        *_unchecked(result),
    ]


def details(result: TuneResult) -> list[Fact]:
    """Facts outside the headline: other speeds, counts, energy."""
    return [
        *_predicted(result),
        *_speeds(result)[1:],
        *_agreement(result),
        *_exported(result),
        *alternative_facts(result),
        *reuse_facts(result),
        *coverage_facts(result.tasks),
        *_families(result),
        *_memory(result),
        *_energy(result),
    ]


def banner(result: TuneResult) -> str:
    """A warning if latencies are not measured or other work disturbed the timing; otherwise empty."""
    found = [f"{fact.label}, {fact.value}: {fact.detail}." for fact in _simulated(result)]
    if disturbed := [one.name for one in result.contestants if one.disturbed]:
        found.append(
            f"Other work of the machine disturbed the timing of {listed(disturbed)}. No ratio to it is "
            "claimed. Time the network again when the machine is quiet."
        )
    return " ".join(found)


def _simulated(result: TuneResult) -> list[Fact]:
    if not result.simulated:
        return []
    if result.settings.get("executor", {}).get("kind") == "replay":
        return [Fact("Replay", "not measured here", "every latency is of a pool of measured programs", False)]
    return [Fact("Dry run", "not measured", "every latency is made up", False)]


def _families(result: TuneResult) -> list[Fact]:
    """Families of tasks (FamilySeer section 5.1), the largest first."""
    counts = Counter(task.family for task in result.tasks if task.family)
    shared = [f"{name} {count}" for name, count in counts.most_common() if count > 1]
    return [Fact("Families", f"{len(counts)}", f"with several tasks: {', '.join(shared)}")] if shared else []


def _predicted(result: TuneResult) -> list[Fact]:
    """The line about unmeasured schedules."""
    predicted = sum(task.predicted for task in result.tasks)
    if not predicted:
        return []
    return [
        Fact(
            "Schedules",
            "predicted, not measured",
            f"{part_of(predicted, len(result.tasks), 'task')} {verb(predicted, 'runs', 'run')} with the "
            "candidate that the cost model rates best, which may be slower than plain loops",
        )
    ]


def _memory(result: TuneResult) -> list[Fact]:
    """Memory of the run at its peak."""
    if result.peak_mb is None:
        return []
    estimated = result.estimated_peak_mb
    expected = "" if estimated is None else f"; {estimated / 1e3:.2f} GB were expected"
    return [
        Fact("Memory", f"{result.peak_mb / 1e3:.2f} GB", f"of all processes of the run at its peak{expected}")
    ]


def _energy(result: TuneResult) -> list[Fact]:
    """Energy of the run under the assumptions in the result (One-Shot Tuner section 7)."""
    estimate = estimate_energy(result)
    if estimate is None:
        return []
    detail = f"assuming {result.power_w:g} W and {result.co2_kg_per_kwh:g} kg of CO2 per kWh"
    if estimate.runs_to_pay_back is not None:
        runs = counted(estimate.runs_to_pay_back, "run")
        detail += f"; paid back after {runs} compared with {estimate.peer}"
    value = f"{significant(estimate.kwh * 1e3)} Wh, {significant(estimate.co2_kg * 1e3)} g CO2"
    found = [Fact("Energy, estimated", value, detail)]
    if (once := estimate.pretraining) is not None:
        value = f"{significant(once.kwh)} kWh, {significant(once.co2_kg)} kg CO2"
        detail = f"{duration(once.seconds)} of measuring data and of training, once for all runs"
        found.append(Fact("Energy of the models", value, detail))
    return found


def _speeds(result: TuneResult) -> list[Fact]:
    """A fact for each other timed contestant: the best rival first, the untuned network last.

    If the untuned network was not timed, the sum of its tasks replaces it.
    """
    tuned = next((one for one in result.contestants if one.name == TUNED), None)
    if tuned is None:
        return []
    others = [*result.rivals(), *(one for one in result.contestants if one.name == UNTUNED)]
    best = result.best_rival()
    others.sort(key=lambda one: one is not best)
    found = [_comparison(result, tuned, one, one is best) for one in others if one.median_s is not None]
    return found + _untuned_by_tasks(result)


def _comparison(result: TuneResult, tuned: Contestant, other: Contestant, best: bool) -> Fact:
    if tuned.median_s is None or tuned.error or other.median_s is None or other.error:
        failed = tuned if tuned.median_s is None or tuned.error else other
        return Fact(f"Compared with {other.name}", "no ratio", f"{failed.name}: {failed.error}")
    detail = f"median {milliseconds(tuned.median_s)} instead of {milliseconds(other.median_s)}"
    if tuned.disturbed or other.disturbed:
        detail += "; other work slowed the machine down, time it again when it is quiet"
        return Fact(f"Compared with {other.name}", "timing disturbed, no ratio", detail)
    if best:
        disturbed = any(one.disturbed for one in result.rivals())
        detail = f"{'fastest undisturbed' if disturbed else 'best'} rival: {detail}"
    return _compared(other.name, other.median_s / tuned.median_s, detail)


def _compared(name: str, ratio: float, detail: str, about: str = "") -> Fact:
    """A fact from `ratio`, the latency of `name` over the tuned network's."""
    faster = ratio >= 1
    value = f"{about}{times(ratio if faster else 1 / ratio)} {'faster' if faster else 'slower'}"
    return Fact(f"Compared with {name}", value, detail, faster)


def _untuned_by_tasks(result: TuneResult) -> list[Fact]:
    """Comparison with the sum of the untuned tasks, if the untuned network was not timed."""
    tuned_s, untuned_s = result.median_s(TUNED), untuned_by_tasks_s(result.tasks)
    if tuned_s is None or untuned_s is None or any(one.name == UNTUNED for one in result.contestants):
        return []
    detail = f"median {milliseconds(tuned_s)}; the untuned tasks sum to {milliseconds(untuned_s)}"
    return [_compared(UNTUNED, untuned_s / tuned_s, detail, "about ")]


def _outputs(result: TuneResult) -> Fact:
    if result.max_abs_difference is None:
        return Fact("Outputs", "not compared", "no reference to compare with")
    return Fact(
        "Outputs",
        ("equal" if result.agreement is None else "within tolerance") if result.outputs_match else "differ",
        f"difference {difference(result.max_abs_difference)}, tolerance {result.tolerance:.1e}"
        + (f"; on {listed(result.compared_on)}" if result.compared_on else ""),
        result.outputs_match,
    )


def _unchecked(result: TuneResult) -> list[Fact]:
    """The outputs whose comparison says nothing."""
    if not result.unchecked:
        return []
    detail = f"{listed(result.unchecked)}; give inputs that change this in check_inputs="
    return [Fact("Unchecked outputs", f"{len(result.unchecked)}", detail, False)]


def _agreement(result: TuneResult) -> list[Fact]:
    """Agreement of a network in a narrower data type with its float32 form."""
    found = result.agreement
    if found is None:
        return []
    detail = f"same largest output as in float32, mean of {counted(found.inputs, 'random input')}"
    if found.rival_top_1 is not None and found.rival_difference is not None:
        detail += (
            f"; {found.rival} in {found.dtype}: {found.rival_top_1:.1%}, "
            f"difference {difference(found.rival_difference)}"
        )
    return [Fact(f"Top-1 agreement in {found.dtype}", f"{found.top_1:.1%}", detail)]


def _exported(result: TuneResult) -> list[Fact]:
    """Latency of the exported library outside this run."""
    loaded, stock = (
        next((one for one in result.exported if one.name == name), None) for name in (BY_LOAD, BY_STOCK)
    )
    if loaded is None or loaded.median_s is None or stock is None or stock.median_s is None:
        return []
    detail = (
        f"by {BY_LOAD}; {BY_STOCK} takes {milliseconds(stock.median_s)} "
        f"(median of {counted(len(loaded.samples_s), 'call')} in a new process)"
    )
    return [Fact("Exported network", milliseconds(loaded.median_s), detail)]


def notes(result: TuneResult) -> list[str]:
    """Remarks below the task table: untuned tasks, stored schedules, other data types, lost time."""
    found = [*_untuned(result)]
    placed = [task for task in result.tasks if task.template]
    found += [f"{task.name} runs a template for GPUs: {task.template}." for task in placed]
    reused = sum(task.from_database for task in result.tasks)
    if reused:
        schedules = part_of(reused, len(result.tasks), "schedule")
        found.append(f"{schedules} came from a database, without a search.")
    found += [f"Operator {text}: TVM builds no code for its own data type." for text in result.recast]
    if result.layout_kept:
        found.append("TVM cannot convert the network to channels last, so it has its own layout.")
    if count := result.float_products:
        products = capitalised(counted(count, "product"))
        verbs = verb(count, "has no form in int8 and stays", "have no form in int8 and stay")
        found.append(f"{products} {verbs} float32.")
    return found + time_notes(result)


def _untuned(result: TuneResult) -> list[str]:
    """A sentence for each reason why tasks were not tuned."""
    names: dict[tuple[str, str], list[str]] = defaultdict(list)
    for task in result.tasks:
        if task.reason:
            extent = "" if task.tuned_latency_s is None else " to the end"
            names[extent, task.reason].append(task.name)
    return [
        f"{listed(of)} {verb(len(of), 'was', 'were')} not tuned{extent}: {reason}."
        for (extent, reason), of in names.items()
    ]
