"""Draft, then verify, as a search strategy: what is replayed, what is proposed, what the next round knows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from foretune.compiler.host.threads import linear_algebra_threads
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.tvm_compat import make_tune_context, parse_target
from foretune.dataset.measure import MeasureOutcome
from foretune.dataset.sampling.programs import EvolutionaryConfig, ProgramSampler
from foretune.inference import OneShotConfig
from foretune.inference.plugins.search_strategy import OneShotStrategy
from foretune.inference.search.config import OneShotConfigError
from foretune.inference.search.loop import RoundBudget
from foretune.inference.spaces.stock import StockSpace
from foretune.inference.strategies.base import StrategySetting
from foretune.inference.strategies.draft.config import DraftingConfig
from foretune.inference.strategies.draft.drafter import UnreadableSpaceError, verified
from foretune.inference.strategies.draft.sampler import DraftSampler
from foretune.inference.strategies.draft.strategy import DraftStrategy
from foretune.inference.strategies.sampled import EvolutionaryStrategy
from foretune.inference.surrogate.shared import own_surrogate
from foretune.models.checkpoints.checkpoint import CheckpointNotFoundError, FeatureVersionError
from support.drafts import CPU, StandInRater
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

TARGET = parse_target({"kind": "llvm", "num-cores": 2})
TASK = to_task(Dense(rows=16, in_features=64, out_features=64, epilogue="bias"))


@derived_object
class Counting(ms.cost_model.PyCostModel):
    """Scores candidates by their place, and remembers how many it was asked about."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def predict(self, context, candidates):
        self.asked.append(len(candidates))
        return np.arange(len(candidates), dtype=np.float64)

    def update(self, context, candidates, results):
        pass


class FirstValues:
    """Stands in for a DraftModel: likes small first decisions."""

    def __init__(self):
        self.raters = []

    def rater(self, sketch, structure, task):
        self.raters.append(StandInRater(lambda values: np.exp(-0.01 * values[:, 0])))
        return self.raters[-1]

    @property
    def rated(self):
        return sum(rater.rated for rater in self.raters)


DRAFTING = DraftingConfig(
    population=200,
    generations=2,
    keep=20,
    refine_population=50,
    refine_generations=1,
    refine_keep=10,
)


def sampler_of(**changes):
    settings = {
        "config": DRAFTING,
        "resources": FirstValues(),
        "random_share": 0.0,
        "surrogate": own_surrogate(),
        "per_round": 6,
        "space": "post-order-apply",
        **changes,
    }
    config = settings.pop("config")
    return DraftSampler(setting(**settings), config), settings


@pytest.fixture
def replayed(monkeypatch):
    """The drafts that were replayed."""
    seen = []

    def remembering(context, drafts, rejected):
        seen.extend(drafts)
        return verified(context, drafts, rejected)

    monkeypatch.setattr("foretune.inference.strategies.draft.sampler.verified", remembering)
    return seen


def measured(sampler, proposed, latencies_s):
    sampler.learn(proposed, [MeasureOutcome((latency_s,)) for latency_s in latencies_s])


def test_hundreds_are_rated_and_few_replayed(replayed):
    sampler, settings = sampler_of()
    proposed = sampler.propose()
    assert isinstance(sampler, ProgramSampler)
    assert len(proposed) == len({trace for trace, _ in proposed}) == 6
    assert settings["resources"].rated >= 3 * 150
    assert len(replayed) == 6
    assert [draft.score for draft in replayed] == sorted((d.score for d in replayed), reverse=True)


def test_drafts_are_rated_on_one_thread():
    """Two that wait for each other take several times as long beside other work, as while workers start."""
    sampler, settings = sampler_of()
    seen = []
    for rater in settings["resources"].raters:
        rater.score = lambda values: seen.append(torch.get_num_threads()) or np.exp(-0.01 * values[:, 0])
    with linear_algebra_threads(2):
        measured(sampler, proposed := sampler.propose(), [1e-3] * len(proposed))
        assert torch.get_num_threads() == 2
    assert set(seen) == {1}


def test_no_round_repeats_and_the_next_descends_from_the_fastest(monkeypatch):
    sampler, settings = sampler_of()
    first = sampler.propose()
    measured(sampler, first, [1e-3 * (place + 1) for place in range(len(first))])
    given_to = []
    draft = sampler._drafter.draft
    monkeypatch.setattr(
        sampler._drafter,
        "draft",
        lambda config, **given: given_to.append((config, given)) or draft(config, **given),
    )
    second = sampler.propose()
    ((config, given),) = given_to
    assert given["parents"] == [trace for trace, _ in first]
    assert given["surrogate"] is settings["surrogate"]
    assert config.population == 50  # those of before the first measurement are still to be chosen from
    assert not {trace for trace, _ in first} & {trace for trace, _ in second}


def test_nothing_is_drafted_or_replayed_twice(replayed):
    sampler, _ = sampler_of()
    for _ in range(4):
        proposed = sampler.propose()
        measured(sampler, proposed, [1e-3] * len(proposed))
    assert len({draft.trace for draft in replayed}) == len(replayed) == 4 * 6


def test_what_was_measured_elsewhere_counts():
    """As after a stop: the sampler is new, and knows programs of the run before."""
    before, _ = sampler_of()
    proposed = before.propose()
    sampler, _ = sampler_of()
    sampler.mark_measured(trace for trace, _ in proposed)
    measured(sampler, proposed, [1e-3] * 6)
    assert sampler._pool.fastest == [trace for trace, _ in proposed]
    assert not {trace for trace, _ in sampler.propose()} & {trace for trace, _ in proposed}


def test_without_learning_the_best_predicted_go_first_whatever_was_measured(replayed):
    sampler, _ = sampler_of(surrogate=None)
    measured(sampler, sampler.propose(), [1e-3 * (6 - place) for place in range(6)])
    sampler.propose()
    assert [draft.score for draft in replayed[6:]] == sorted((d.score for d in replayed[6:]), reverse=True)


@pytest.mark.parametrize(("share", "rounding"), [(0.0, 0), (0.5, 3)])
def test_a_quick_round_rates_less_and_leaves_the_rest_for_later(share, rounding, replayed):
    config = replace(DRAFTING, generations=8, vectorised_share=share)
    sampler, settings = sampler_of(config=config)
    quick = sampler.propose_quickly(5)
    assert len(quick) == len(replayed) == 5
    assert settings["resources"].rated <= 3 * 200 + rounding  # two generations instead of eight
    measured(sampler, quick, [1e-3] * 5)
    before = sampler.counts.drafted
    later = sampler.propose()
    assert len(later) == 6
    assert sampler.counts.drafted - before >= 8 * 150  # what a first round drafts
    assert not {trace for trace, _ in quick} & {trace for trace, _ in later}


def test_chance_fills_its_share():
    sampler, _ = sampler_of(random_share=1.0)
    assert len(sampler.propose()) == 6


def setting(**changes):
    """Setting of a strategy for TASK."""
    given = {
        "task": TASK,
        "target": TARGET,
        "space": StockSpace(None).generator(TARGET),
        "scorer": Counting(),
        "surrogate": None,
        "per_round": 4,
        "random_share": 0.05,
        "seed": 0,
        "threads": 1,
        "resources": FirstValues(),
        **changes,
    }
    return StrategySetting(**given)


def test_the_strategy_makes_one_with_its_settings():
    config = DraftingConfig(checkpoint="somewhere", population=100, generations=1, keep=8)
    strategy = DraftStrategy.make(config, setting())
    assert isinstance(strategy, DraftStrategy)
    assert len(strategy.propose(RoundBudget(4))) == 4
    with pytest.raises(ValueError, match="draft model"):
        DraftStrategy.make(config, setting(resources=None))


def test_start_candidates_come_once_and_drafts_descend_from_them(monkeypatch):
    config = DraftingConfig(checkpoint="somewhere", population=100, generations=1, keep=8)
    known = dict(DraftStrategy.make(config, setting(seed=5)).propose(RoundBudget(4)))
    strategy = DraftStrategy.make(config, setting())
    first, second, *_ = known
    found = strategy.take_starts([first, second, "no trace"])
    assert [trace for trace, _ in found] == [first, second]
    assert strategy.take_starts([first]) == []
    parents = []
    draft = strategy._sampler._drafter.draft
    monkeypatch.setattr(
        strategy._sampler._drafter,
        "draft",
        lambda config, **given: parents.extend(given["parents"]) or draft(config, **given),
    )
    proposed = strategy.propose(RoundBudget(4))
    assert parents == [first, second]
    assert not {first, second} & {trace for trace, _ in proposed}


def test_a_task_that_cannot_be_drafted_is_searched_by_evolution(monkeypatch):
    def fail(*given):
        raise IndexError("an instruction of a later TVM")

    monkeypatch.setattr("foretune.inference.strategies.draft.drafter.read_spaces", fail)
    strategy = DraftStrategy.make(DraftingConfig(checkpoint="somewhere"), setting())
    assert isinstance(strategy, EvolutionaryStrategy)
    assert len(strategy.propose(RoundBudget(4))) == 4
    with pytest.raises(UnreadableSpaceError, match="a later TVM"):
        sampler_of()
    monkeypatch.setattr("foretune.inference.strategies.draft.drafter.read_spaces", lambda *given: [])
    with pytest.raises(UnreadableSpaceError, match="no sketch"):
        sampler_of()


# -- which draft checkpoint


def test_drafting_is_the_default_and_finds_its_checkpoint():
    config = OneShotConfig()
    assert config.strategy.checkpoint == "auto"
    found = config.fitted(TARGET)
    assert found.strategy == replace(config.strategy, checkpoint="cpu-draft")
    assert found.fitted(TARGET) == found
    assert DraftStrategy.load(found.strategy, CPU).hardware == CPU


@pytest.mark.parametrize(
    ("checkpoint", "target", "reason"),
    [
        ("auto", parse_target("vulkan"), "no draft checkpoint for vulkan targets"),
        (None, TARGET, "search.strategy.checkpoint=null"),
    ],
)
def test_without_a_draft_checkpoint_the_search_is_evolutionary(checkpoint, target, reason, caplog):
    config = OneShotConfig(DraftingConfig(checkpoint=checkpoint), top_k=7)
    found = config.fitted(target)
    assert found == replace(config, strategy=EvolutionaryConfig())
    (line,) = caplog.messages
    assert reason in line and "search/strategy=evolutionary" in line
    found.fitted(target)
    assert len(caplog.messages) == 1  # said once


@pytest.mark.parametrize(
    ("checkpoint", "error"), [("nowhere", CheckpointNotFoundError), ("cpu", FeatureVersionError)]
)
def test_a_draft_checkpoint_that_the_user_names_must_be_one(checkpoint, error):
    with pytest.raises(error):
        OneShotConfig(DraftingConfig(checkpoint=checkpoint)).fitted(TARGET)
    for other in (OneShotConfig("evolutionary"), OneShotConfig("annealing")):
        assert other.fitted(TARGET) == other


def test_stock_tuning_for_another_device_needs_its_draft_model():
    strategy = OneShotStrategy(OneShotConfig(DraftingConfig(checkpoint="cpu-draft")))._inst
    strategy._initialize_with_tune_context(
        make_tune_context(TASK.mod, parse_target("nvidia/nvidia-a100"), seed=0)
    )
    with pytest.raises(OneShotConfigError, match=r"draft_model=DraftModel\.load"):
        strategy.pre_tuning(4, 4, [], None, Counting())
