"""The doors Strategy and DesignSpace: one fake each goes through the same session as the real ones."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import pytest
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.replay import candidate_trace_json, instantiate
from foretune.compiler.tvm_compat import design_spaces, make_tune_context, parse_target
from foretune.inference import OneShotConfig
from foretune.inference.search.config import OneShotConfigError
from foretune.inference.search.loop import RoundBudget
from foretune.inference.search.session import SearchSession, SessionResources
from foretune.inference.spaces.base import DesignSpace
from foretune.inference.spaces.stock import StockSpace
from foretune.inference.strategies.base import Strategy, StrategyConfig
from foretune.inference.strategies.registry import STRATEGIES, strategy_class, strategy_config
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Trace

TARGET = parse_target({"kind": "llvm", "num-cores": 1})
TASK = to_task(Dense(rows=8, in_features=64, out_features=32, epilogue="bias_relu"))


@dataclass(frozen=True)
class OneByOneConfig(StrategyConfig):
    name: str = "one_by_one"
    per_round: int = 1


class OneByOne(Strategy):
    """Proposes the first sketch with ever other decisions, `per_round` a round, and hears what they took."""

    Config = OneByOneConfig

    @classmethod
    def make(cls, config, setting):
        return cls(config, setting)

    def __init__(self, config, setting):
        self._per_round = config.per_round
        self._context = make_tune_context(
            setting.task.mod, setting.target, seed=setting.seed, space=setting.space
        )
        sketch = design_spaces(self._context, setting.task.name)[0].trace
        self._trace = Trace(sketch.insts, {})  # every decision is open
        self._seed = 0
        self.heard = {}

    @property
    def context(self):
        return self._context

    def take_starts(self, starts):
        return []

    def propose(self, budget):
        found = {}
        while len(found) < min(self._per_round, budget.measured):
            self._seed += 1
            candidate = instantiate(self._context, self._trace, self._seed)
            found[candidate_trace_json(candidate)] = candidate
        return list(found.items())

    def mark_measured(self, traces):
        pass

    def learn(self, measured, latencies_s):
        self.heard |= {trace: latencies_s[trace] for trace, _ in measured}


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setitem(STRATEGIES, "one_by_one", "package_of_a_user:OneByOne")
    monkeypatch.setitem(sys.modules, "package_of_a_user", _Here)


class _Here:
    OneByOne = OneByOne


def session_of(strategy, **options):
    resources = SessionResources(ms.cost_model.RandomModel(), OneShotConfig(strategy), None, threads=1)
    return SearchSession(TASK, TARGET, resources, **options)


def test_a_strategy_is_one_class_and_one_line(registered):
    assert strategy_config("one_by_one") == OneByOneConfig()
    assert strategy_config({"name": "one_by_one", "per_round": 2}) == OneByOneConfig(per_round=2)
    session = session_of({"name": "one_by_one", "per_round": 2})
    first = session.propose(RoundBudget(4))
    assert len(first) == 2
    session.learn({candidate.trace: 1e-3 for candidate in first})
    assert session._strategy.heard == {candidate.trace: 1e-3 for candidate in first}
    with pytest.raises(OneShotConfigError, match=r"search\.strategy\.pace: .*one_by_one has no such setting"):
        strategy_config({"name": "one_by_one", "pace": 3})


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_registered_strategy_is_there(name):
    strategy = strategy_class(name)
    assert issubclass(strategy, Strategy)
    assert strategy.Config().name == name


@pytest.mark.parametrize(
    ("given", "checkpoints"),
    [
        ("evolutionary", ()),
        ("draft", ("auto",)),
        ({"name": "draft", "checkpoint": None}, ()),
        ("dqn", ("auto", "cpu-draft")),
        ("reuse", ("auto",)),
        ({"name": "reuse", "backend": "stock"}, ()),
    ],
)
def test_a_strategy_names_the_checkpoints_that_it_searches_with(given, checkpoints):
    config = OneShotConfig(given)
    assert config.strategy_class.checkpoints(config.strategy) == checkpoints


@pytest.mark.parametrize(
    ("given", "reuse"), [("draft", "auto"), ("reuse", "auto"), ("stock", "off"), ("pool", "off")]
)
def test_strategies_that_take_no_programs_over_search_each_task(given, reuse):
    assert OneShotConfig(given).reuse_in_use == reuse


class NoUnrolling(DesignSpace):
    """Stock's space without the rules that unroll and parallelise."""

    def generator(self, target):
        stock = StockSpace(None).generator(target)
        kept = [rule for rule in stock.sch_rules if "ParallelizeVectorizeUnroll" not in str(rule)]
        return ms.space_generator.PostOrderApply(
            sch_rules=kept, postprocs=list(stock.postprocs), mutator_probs=dict(stock.mutator_probs)
        )


@pytest.mark.parametrize(("space", "annotated"), [(None, True), (NoUnrolling(), False)])
def test_a_design_space_says_which_candidates_exist(space, annotated):
    session = session_of({"name": "evolutionary", "population_size": 6, "generations": 1}, space=space)
    found = session.propose(RoundBudget(4))
    assert found
    has = ["unroll" in candidate.trace for candidate in found]
    assert all(has) if annotated else not any(has)
    assert np.isfinite([candidate.score for candidate in found]).all()
