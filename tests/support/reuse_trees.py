"""Reuse trees of four small tasks, searchers that propose what the tree gives, and a tuner of both."""

from __future__ import annotations

from dataclasses import fields, replace

from foretune.compiler.operators import Dense, to_task
from foretune.inference.reuse.donors import ParentsBest
from foretune.inference.reuse.planner import ReusePlanner
from foretune.inference.reuse.rules import ChildBudget, ReuseRules, Selected, SourceLimits
from foretune.inference.reuse.selection import GivenSelection, ReuseSelection
from foretune.inference.reuse.tree import ROOT, ReuseTree
from foretune.inference.search.config import OneShotConfig, StopConfig
from foretune.inference.workers.messages import RoundReply

from .searchers import FakeDatabase, FakeSearcher, made_up, measuring_into, network_tuner

A, B, C, D = TASKS = [
    to_task(Dense(rows=8, in_features=8, out_features=extent)) for extent in (8, 16, 32, 64)
]
BRIDGE = replace(to_task(Dense(rows=4, in_features=8, out_features=8)), name="bridge", weight=0)
NAMES = {task.workload_hash: letter for task, letter in zip([*TASKS, BRIDGE], "abcd+", strict=True)}
CONFIG = OneShotConfig(rounds=2, top_k=4, finalists=0, stop=StopConfig(minimum=4))
SECOND_S = 0.001
STEP_BY_STEP = ChildBudget(programs=2, starts=0, total=6, reused=1)


class StartingSearcher(FakeSearcher):
    """Proposes starts first, whose latency `start_s` gives; then, where asked for, programs of its own."""

    def __init__(self, start_s=lambda trace: 0.002, **options):
        super().__init__(**options)
        self._start_s = start_s

    def reply(self):
        request = self.requests[-1]
        own = super().reply() if request.budget.search else RoundReply()
        starts = tuple(made_up(trace, self._start_s(trace), 0.5, is_start=True) for trace in request.starts)
        return replace(own, proposals=starts + own.proposals)

    @property
    def searched(self):
        """Letters of the tasks in the order of their rounds."""
        return "".join(NAMES[request.key] for request in self.requests)

    def rounds(self, letter):
        return [request for request in self.requests if NAMES[request.key] == letter]


class Steps(StartingSearcher):
    """Has steps of the latencies in `own` for b, one a round, and then nothing more."""

    def __init__(self, own, **options):
        super().__init__(**options)
        self._own = list(own)

    def reply(self):
        request = self.requests[-1]
        if NAMES[request.key] != "b" or not request.parents:
            return super().reply()
        key, step = request.key, len(self.rounds("b"))
        latencies = self._own.pop(0) if self._own else ()
        return RoundReply(
            tuple(
                made_up(f"{key} step {step} {n}", latency, 1.0 - 0.1 * n)
                for n, latency in enumerate(latencies)
            )
        )


def adapt(parent, trace, child):
    return f"{NAMES[child.workload_hash]} as {trace}"


def tree_of(**parents):
    """Tree of letters; _ is the root, and x is the bridge."""
    names = {letter: name for name, letter in NAMES.items()} | {"_": ROOT}
    names["x"] = names["+"]
    return ReuseTree({names[child]: names[parent] for child, parent in parents.items()}, {})


class GivenRules(ReuseRules):
    """Rules made of functions: `child_of`, `known_programs` and so on."""

    def __init__(self, **functions):
        limits = {one.name: functions.pop(one.name) for one in fields(SourceLimits) if one.name in functions}
        if "source_rounds" in functions:
            limits["rounds"] = functions.pop("source_rounds")
        super().__init__(limits=SourceLimits(**limits))
        self.reads_sketches = "sketch_of" in functions
        for name, function in functions.items():
            method = name.removesuffix("_of")
            assert hasattr(ReuseRules, method), name
            setattr(self, method, function)


def planner_of(tree, *, starts=None, config=CONFIG, bridges=(), library=(), breadth_first=False, **rules):
    selection = tree if isinstance(tree, ReuseSelection) else GivenSelection(tree)
    chosen = Selected(selection, bridges, library)
    return ReusePlanner(
        config,
        lambda tasks: chosen,
        starts or ParentsBest(adapt),
        GivenRules(**rules),
        breadth_first=breadth_first,
    )


def tune(planner, searcher, tasks=TASKS, untuned_s=None, database=None, config=CONFIG, **options):
    searchers = searcher if isinstance(searcher, list) else [searcher]
    tuner = network_tuner(
        config, measuring_into([]), searchers, database or FakeDatabase(), planner=planner, **options
    )
    return tuner.tune(tasks, untuned_s or [SECOND_S * 20] * len(tasks))
