"""Alternatives of a network during tuning: which ones the run gives up, and which ones the network uses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import tvm

from ...compiler.networks.alternatives.alternatives import (
    Alternative,
    Offer,
    call_counts,
    places,
    with_alternatives,
)
from ..planners.base import Round, TaskPlanner
from ..run.result import BEATEN, AlternativeResult, TaskResult
from ..run.untuned_tasks import with_untuned
from .task_search import TaskSearch

HOPELESS = 1.3
"""Latency ratio of two implementations above which the slower one gets no further round. All tasks of both
must have had a round."""

HEADROOM = 1.25
"""Operations a second of an unmeasured task, at most, over those of the best measured task of its operator.

The direct convolutions of ResNet-18 and VGG-16 differ by at most 1.06 on a Zen 4 with two cores
(benchmarks/results/winograd).
"""

CLEARLY = 1.25
"""Ratio of the expected gains of two alternatives to a task at which only the better one is measured.

At this ratio, Winograd's F(4x4) is faster than F(2x2) in 13 of 14 layers of ResNet-18 and VGG-16, by 1.46 in
the geometric mean of all. In the other one, F(2x2) is 3 % faster. At lower ratios, each of them wins in some
layers (benchmarks/results/winograd).
"""

RESIZED_TEMPLATES = 2
"""Number of templates that an alternative measures if its layer was measured at another size: the best one in
blocks and the best one stage by stage, according to the closed form."""


class Contests:
    """Alternatives among the searches of a run."""

    def __init__(
        self, offers: Sequence[Offer], searches: Sequence[TaskSearch], *, measured: bool = True
    ) -> None:
        """Records, for the tasks of each offer, the calls of the network that the offer can replace.

        Offers with tasks that are not searched are left out. No task waits for its alternatives if nothing is
        `measured`.
        """
        self._searches = {search.task.workload_hash: search for search in searches}
        self._offers = [offer for offer in offers if all(name in self._searches for name in _names(offer))]
        for offer in self._offers:
            for search in self._own(offer):
                search.role.calls_instead = max(search.role.calls_instead, offer.calls)
            if _is_single(offer):
                (own,), (replaced,) = self._own(offer), self._replaced(offer)
                if replaced.task.weight <= offer.calls:
                    own.role.stands_for, own.role.expected_gain = replaced, offer.gain or 1.0
                    replaced.role.stand_ins.append(own)
        self._contested = [search for search in searches if measured and search.role.stand_ins]
        for search in self._contested:
            for way in search.role.stand_ins:
                way.role.better = _clearly_better(way, search.role.stand_ins)

    def give_up(self, rounds: int) -> None:
        """Ends searches of alternatives that are hopeless or have measured their templates.

        The searches end as if they had all `rounds`. A task that an alternative replaces everywhere gets no
        further round in this run if it is hopeless compared with the alternative; see HOPELESS. A run without
        the alternative continues the search of the task.
        """
        hopeless: list[bool] = []
        for offer in self._offers:
            own, replaced = self._own(offer), self._replaced(offer)
            had = all(search.had_a_round or search.over for search in own)
            own_s = sum(search.best_s for search in own)
            direct_s = sum(min(search.best_s, search.untuned_s) for search in replaced)
            hopeless.append(had and own_s > HOPELESS * direct_s)
            if had and direct_s > HOPELESS * own_s and all(search.had_a_round for search in replaced):
                for search in replaced:
                    if not search.busy and search.task.weight <= offer.calls:
                        search.end()
        self._end(hopeless, rounds)
        for search in self._searches.values():
            templates_ran = search.is_alternative and search.rounds and not search.flight.budget.search
            if templates_ran and not (search.busy or search.over):
                search.give_up(rounds)

    def end_beaten(self, headroom: float = 1.0) -> None:
        """Ends searches without a round of tasks whose operations take longer than an alternative.

        The time for the operations is that of the best measured task with the same operator and alternatives,
        if it did `headroom` times as many a second. Without such a task, no search ends. The search of an
        alternative ends if a clearly better one has run; see CLEARLY.
        """
        rates = self._rates()
        for search in self._searches.values():
            if not (search.had_a_round or search.busy or search.over):
                rate = headroom * rates.get(search.task.operator, math.inf)
                better_ran = any(math.isfinite(way.best_s) for way in search.role.better)
                if better_ran or search.task.flops > rate * search.fastest_s:
                    search.beat()

    def next_round(
        self, planner: TaskPlanner, preferred: Sequence[TaskSearch], others: Sequence[TaskSearch]
    ) -> Round | None:
        """See TaskPlanner. Tasks wait for their alternatives, and alternatives for clearly better ones.

        One task of each operator does not wait: its latency shows how fast the others can be.
        """
        rates, begins = self._rates(), {id(search) for search in (*preferred, *others)}
        at_work = {search.task.operator for search in self._contested if search.busy}

        def waits(search: TaskSearch) -> bool:
            if search.had_a_round or not self._contested:
                return False
            if search in self._contested and search.task.operator not in rates:
                return search.task.operator in at_work
            faster = (*search.role.stand_ins, *search.role.better)
            ways = (way for way in faster if not (way.had_a_round or way.over))
            return any(way.busy or id(way) in begins for way in ways)

        ready = ([search for search in of if not waits(search)] for of in (preferred, others))
        planned = planner.next_round(*ready)
        if planned is None and not any(search.busy for search in self._searches.values()):
            planned = planner.next_round(preferred, others)  # no round is left to wait for
        return planned

    def _rates(self) -> dict[str, float]:
        """Most operations a second of the measured tasks that have alternatives, by operator."""
        rates: dict[str, float] = {}
        for search in self._contested:
            if math.isfinite(search.best_s):
                operator, rate = search.task.operator, search.task.flops / search.best_s
                rates[operator] = max(rate, rates.get(operator, 0.0))
        return rates

    def leave_out(self, resized_s: Callable[[TaskSearch], Mapping[float, float]], rounds: int) -> None:
        """Ends searches of alternatives that were hopeless at another size, as if they had all `rounds`.

        The others that were measured there measure fewer templates (`RESIZED_TEMPLATES`), because earlier
        runs found them competitive.

        Args:
            resized_s: latency in seconds of a task's layer at other sizes, by the distance from that size.
        """
        earlier: list[tuple[float, float] | None] = []
        fastest_s: dict[tuple[tuple[str, ...], float], float] = {}
        for offer in self._offers:
            own, replaced = (list(map(resized_s, of)) for of in (self._own(offer), self._replaced(offer)))
            size = min(set.intersection(*map(set, (*own, *replaced))), default=None)
            if size is None:
                earlier.append(None)
                continue
            own_s, direct_s = (sum(known[size] for known in of) for of in (own, replaced))
            earlier.append((size, own_s))
            key = offer.replaces, size
            fastest_s[key] = min(own_s, direct_s, fastest_s.get(key, math.inf))
            for search in self._own(offer):
                search.role.known_resized = True
        hopeless = [
            known is not None and known[1] > HOPELESS * fastest_s[offer.replaces, known[0]]
            for offer, known in zip(self._offers, earlier, strict=True)
        ]
        self._end(hopeless, rounds)

    def saved_s(self) -> float:
        """Seconds that the network saves with the alternatives that are faster so far."""
        latency_s = {name: search.call_s for name, search in self._searches.items()}
        saved, taken = 0.0, set[str]()
        for offer in preferred(self._offers, latency_s.get):
            direct_s = sum(latency_s[name] for name in offer.replaces)
            if taken.isdisjoint(offer.replaces) and math.isfinite(direct_s):
                taken.update(offer.replaces)
                saved += offer.calls * (direct_s - _own_s(offer, latency_s.get))
        return saved

    def _end(self, hopeless: Sequence[bool], rounds: int) -> None:
        """Ends the searches of tasks that only hopeless offers call; `hopeless` has one value per offer."""
        offers = list(zip(self._offers, hopeless, strict=True))
        needed = {task.workload_hash for offer, lost in offers if not lost for task in offer.tasks}
        for search in (search for offer, lost in offers if lost for search in self._own(offer)):
            if not (search.task.weight or search.busy or search.over or search.task.workload_hash in needed):
                search.give_up(rounds)

    def _own(self, offer: Offer) -> list[TaskSearch]:
        return [self._searches[task.workload_hash] for task in offer.tasks]

    def _replaced(self, offer: Offer) -> list[TaskSearch]:
        return [self._searches[name] for name in offer.replaces]


def preferred(offers: Sequence[Offer], latency_s: Callable[[str], float | None]) -> list[Offer]:
    """Offers that are faster than the calls that they replace, in order of preference.

    An offer for several consecutive calls must be faster than the fastest implementation of each of them.
    Such offers come first. The others are in descending order of the saved time. `latency_s` is in seconds
    per call, by workload hash. None or inf is an unknown latency; a known alternative counts as faster.
    """
    fastest_s: dict[str, float] = {}
    for offer in offers:
        for name in offer.replaces:
            fastest_s.setdefault(name, _known(latency_s(name)))
    direct_s = dict(fastest_s)
    found: list[tuple[int, float, int]] = []
    for number in sorted(range(len(offers)), key=lambda number: len(offers[number].replaces)):
        offer = offers[number]
        alone = len(offer.replaces) == 1
        own_s = _own_s(offer, latency_s)
        replaced_s = sum((direct_s if alone else fastest_s)[name] for name in offer.replaces)
        if own_s < replaced_s:
            # If the direct latency is not known, the fastest alternative saves most.
            saved_s = -own_s if math.isinf(replaced_s) else offer.calls * (replaced_s - own_s)
            found.append((-len(offer.replaces), -saved_s, number))
            if alone:
                fastest_s[offer.replaces[0]] = min(fastest_s[offer.replaces[0]], own_s)
    return [offers[number] for _, _, number in sorted(found)]


@dataclass(frozen=True)
class Taken:
    """Tuned network with the fastest implementations of its parts."""

    relax_mod: tvm.IRModule
    results: list[TaskResult]
    """Results of the network's tasks. Tasks that the network does not call have weight 0."""
    alternatives: list[AlternativeResult]
    replaces: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Workload hashes of the calls that an alternative of one task replaces, by the task's workload hash."""


def take(
    relax_mod: tvm.IRModule,
    alternatives: Sequence[Alternative],
    results: Sequence[TaskResult],
    measured: bool = True,
) -> Taken:
    """The network with the alternatives that are faster according to the latencies of `results`.

    In a run without measurements, expected gains decide if a place and its alternatives have no latency.
    """
    if not alternatives:
        return Taken(relax_mod, list(results), [])
    by_name = {result.workload_hash: result for result in results}
    beaten = {name for name, result in by_name.items() if result.reason == BEATEN}
    # An alternative without tuning runs as plain loops, and nobody timed these.
    latency_s = {name: found.latency_s for name, found in by_name.items()}
    of_offer = {id(alternative.offer): alternative for alternative in alternatives}
    offers = [alternative.offer for alternative in alternatives]
    compared = compared_s(offers, latency_s.get, measured=measured)
    chosen = [of_offer[id(offer)] for offer in preferred(offers, compared)]
    taken = dict(zip(map(id, chosen), map(len, places(chosen)), strict=True))
    chosen = [alternative for alternative in chosen if taken[id(alternative)]]
    changed = with_alternatives(relax_mod, chosen)
    counts = call_counts(changed)
    untuned_s = {name: found.untuned_latency_s for name, found in by_name.items()}
    replaces = {
        offer.tasks[0].workload_hash: offer.replaces
        for offer in (alternative.offer for alternative in chosen)
        if len(offer.tasks) == 1
    }
    return Taken(
        changed,
        with_untuned(
            [replace(result, weight=counts[result.workload_hash]) for result in results], untuned_s, replaces
        ),
        [
            AlternativeResult(
                name=offer.name,
                replaced=list(offer.replaced),
                tasks=[task.name for task in offer.tasks],
                places=offer.calls,
                taken=taken.get(id(alternative), 0),
                direct_s=None if beaten.intersection(offer.replaces) else _sum_s(offer.replaces, latency_s),
                alternative_s=_sum_s([task.workload_hash for task in offer.tasks], latency_s),
            )
            for alternative, offer in zip(alternatives, offers, strict=True)
        ],
        replaces,
    )


def compared_s(
    offers: Sequence[Offer], latency_s: Callable[[str], float | None], *, measured: bool
) -> Callable[[str], float | None]:
    """Latencies by workload hash for `preferred`; relative ones where a run without measurements has none."""
    expected = {} if measured else _expected(offers, latency_s)
    return lambda name: expected.get(name, latency_s(name))


def _expected(offers: Sequence[Offer], latency_s: Callable[[str], float | None]) -> dict[str, float]:
    """Relative latencies from expected gains, for offers of one task that have no known latency.

    A replaced call has the value 1. Only latencies of one place are compared, so that different places do not
    need a common unit.
    """
    found: dict[str, float] = {}
    for offer in offers:
        known = any(latency_s(name) is not None for name in _names(offer))
        if offer.gain is not None and len(offer.tasks) == 1 and not known:
            found.update(dict.fromkeys(offer.replaces, 1.0))
            found[offer.tasks[0].workload_hash] = len(offer.replaces) / offer.gain
    return found


def _clearly_better(way: TaskSearch, ways: Sequence[TaskSearch]) -> list[TaskSearch]:
    """Alternatives to the same task whose expected gain is CLEARLY times as high, if both are known."""
    gain = way.role.expected_gain
    return [other for other in ways if gain > 1 and other.role.expected_gain >= CLEARLY * gain]


def _is_single(offer: Offer) -> bool:
    """Whether one task replaces one call."""
    return len(offer.tasks) == len(offer.replaces) == 1


def _names(offer: Offer) -> list[str]:
    return [*offer.replaces, *(task.workload_hash for task in offer.tasks)]


def _own_s(offer: Offer, latency_s: Callable[[str], float | None]) -> float:
    return sum(_known(latency_s(task.workload_hash)) for task in offer.tasks)


def _known(seconds: float | None) -> float:
    return math.inf if seconds is None else seconds


def _sum_s(names: Sequence[str], latency_s: Mapping[str, float | None]) -> float | None:
    """Sum of latencies; None unless all are known."""
    found = sum(_known(latency_s.get(name)) for name in names)
    return found if math.isfinite(found) else None
