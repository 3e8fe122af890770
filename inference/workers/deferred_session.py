"""Session of a task whose search opens when a round needs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...dataset.sampling.programs import KnownCandidates
from ...dataset.sampling.programs.counts import CandidateCounts
from ..reuse.parent import ReuseParent
from ..run.profiling import StageClock
from ..search.candidate import Candidate
from ..search.loop import RoundBudget
from ..search.session import Session


class DeferredSession:
    """Replays start candidates until a round needs the search of the task, and opens the search then.

    A round without a search measures all its start candidates. They need no design space, features or
    scores, which take most of the time of such a round.
    """

    def __init__(self, starts: Session, opened: Callable[[], Session], clock: StageClock) -> None:
        """`starts` proposes start candidates only; `opened` opens the search; `clock` has the stages."""
        self._starts = starts
        self._opened = opened
        self._clock = clock
        self._search: Session | None = None
        self._learned: dict[str, float] = {}  # latencies in seconds by trace, for a later search

    @property
    def known(self) -> KnownCandidates:
        """See Session."""
        return (self._search or self._starts).known

    @property
    def counts(self) -> CandidateCounts:
        """See Session."""
        counts = self._starts.counts
        return counts if self._search is None else counts + self._search.counts

    def propose(
        self, budget: RoundBudget, starts: Sequence[str] = (), parents: Sequence[ReuseParent] = ()
    ) -> list[Candidate]:
        """See Session. A round without a start candidate that replays opens the search, too."""
        if self._search is None and not budget.search:
            with self._clock.stage("replay and postprocessing"):
                found = self._starts.propose(budget, starts, parents)
            if found:
                return found
        if self._search is None:
            self._search = self._opened()
            self._search.learn(self._learned)
        return self._search.propose(budget, starts, parents)

    def learn(self, latencies_s: Mapping[str, float]) -> None:
        """See Session."""
        if self._search is not None:
            self._search.learn(latencies_s)
        else:
            self._learned.update(latencies_s)
            self._starts.learn(latencies_s)
