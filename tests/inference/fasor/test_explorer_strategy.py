"""Search by a deep Q-network on real TVM: what is proposed, where walks begin, what is refused."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from foretune.compiler.replay import candidate_trace_json
from foretune.compiler.tvm_compat import parse_target
from foretune.configuration import from_hydra
from foretune.dataset.features.reading import task_reading
from foretune.dataset.measure import MeasureOutcome
from foretune.dataset.sampling.programs import EvolutionaryConfig, RandomSampler, SamplerSetting
from foretune.inference.fasor.explorer_config import ExplorationConfig
from foretune.inference.fasor.explorer_strategy import (
    ExplorationSampler,
    ExplorationStrategy,
    ExplorerResources,
    UnexplorableError,
)
from foretune.inference.fasor.primitives import settings
from foretune.inference.fasor.sub_space import SubSpace
from foretune.inference.run.config import TuneConfig
from foretune.inference.search.config import OneShotConfig, OneShotConfigError
from foretune.inference.search.loop import RoundBudget
from foretune.inference.spaces.config import SubSpaceConfig
from foretune.inference.spaces.stock import StockSpace
from foretune.inference.strategies.base import StrategySetting
from foretune.inference.strategies.sampled import EvolutionaryStrategy
from foretune.inference.tune import run
from foretune.models.checkpoints.checkpoint import (
    ActionSpaceError,
    CheckpointKindError,
    CheckpointNotFoundError,
    FeatureVersionError,
    load_checkpoint,
    load_explorer,
    shipped_explorers,
)
from foretune.training.exploration.environment import Environment
from hydra import compose, initialize_config_module
from rich.console import Console
from support.checkpoints import TASK, random_checkpoint
from support.drafts import CPU
from support.exploration import explorer_checkpoint, random_explorer

TARGET = parse_target({"kind": "llvm", "num-cores": 2})


class Counting(Environment):
    """The shipped environment, which counts the programs that it judges."""

    def __init__(self):
        super().__init__(load_checkpoint("cpu-draft").predictor)
        self.judged = 0

    def observe(self, spaces, choices):
        self.judged += sum(map(len, choices))
        return super().observe(spaces, choices)


def sampler_of(**changes):
    environment = Counting()
    settings = {
        "config": ExplorationConfig(candidates=24, draws=6, walks=2),
        "resources": ExplorerResources(random_explorer(), environment, CPU),
        "scorer": None,
        "surrogate": None,
        "random_share": 0.0,
        "per_round": 8,
        "seed": 0,
        "threads": 1,
        "space": StockSpace(6000).generator(TARGET),
        **changes,
    }
    config = settings.pop("config")
    return ExplorationSampler(StrategySetting(TASK, TARGET, **settings), config), environment


def test_one_iteration_judges_its_candidates_and_proposes_the_best():
    sampler, environment = sampler_of()
    proposed = sampler.propose()
    assert len(proposed) == len({trace for trace, _ in proposed}) == 8
    assert all(trace == candidate_trace_json(candidate) for trace, candidate in proposed)
    # Every iteration rates equal shares of the sketches, and looks once more at those it walks from.
    sketches = len(sampler._spaces)
    assert 24 <= sampler.counts.drafted <= 24 + sketches
    assert environment.judged <= 2 * sampler.counts.drafted
    later = {trace for trace, _ in sampler.propose()}
    assert later and not later & {trace for trace, _ in proposed}


def test_walks_stay_within_a_sub_space_and_starts_keep_what_is_not_tuned():
    sub_space = SubSpace.of(TASK, CPU, SubSpaceConfig(primitives=5), 6000)
    reader = task_reading(TASK.mod).sketches

    def values_of(traces):
        found = [settings(*reader.read(trace)) for trace in traces]
        return {name: {setting for one in found for setting in one[name]} for name in sub_space.fixed}

    sampler, _ = sampler_of(narrow=sub_space.narrowed, random_share=0.5)
    found = values_of([*sampler._walked(1), *(trace for trace, _ in sampler.propose())])
    assert found["parallel"] == {1}
    drawn = dict(RandomSampler(SamplerSetting(TASK, TARGET, per_round=16, seed=3, threads=1)).propose())
    sampler, _ = sampler_of(narrow=sub_space.narrowed)
    sketches = [space.space.sketch for space in sampler._spaces]
    start = next(
        trace
        for trace in drawn
        if values_of([trace])["parallel"] - {1} and any(one.values_in(trace) is not None for one in sketches)
    )
    sampler.descend_from([start])
    kept = values_of([start])["parallel"]
    assert kept <= values_of(sampler._walked(1))["parallel"] <= kept | {1}


def test_quality_walks_on_until_nothing_better_is_found():
    once, _ = sampler_of()
    on, _ = sampler_of(config=ExplorationConfig(candidates=24, draws=6, walks=2, iterations=6, patience=6))
    once.propose(), on.propose()
    assert on.counts.drafted > 3 * once.counts.drafted


def test_walks_begin_at_the_starts_and_then_at_the_fastest():
    drawn = dict(RandomSampler(SamplerSetting(TASK, TARGET, per_round=4, seed=3, threads=1)).propose())
    sampler, _ = sampler_of()
    sampler.descend_from(drawn)
    assert sampler._parents() == list(drawn)
    first, second = list(drawn.items())[:2]
    sampler.learn([first, second], [MeasureOutcome((2e-3,)), MeasureOutcome((1e-3,))])
    assert sampler._parents()[:2] == [second[0], first[0]]
    assert len(sampler.propose()) == 8


def test_a_task_that_no_move_changes_is_unexplorable(monkeypatch):
    monkeypatch.setattr("foretune.inference.fasor.explorer_strategy.read_spaces", lambda *of: [])
    with pytest.raises(UnexplorableError, match="no sketch has a decision that a move changes"):
        sampler_of()
    setting = StrategySetting(
        TASK,
        TARGET,
        space=StockSpace(6000).generator(TARGET),
        scorer=None,
        surrogate=None,
        per_round=4,
        random_share=0.0,
        seed=0,
        threads=1,
        resources=ExplorerResources(random_explorer(), Counting(), CPU),
    )
    monkeypatch.setattr(EvolutionaryStrategy, "make", lambda config, setting: "evolution")
    assert ExplorationStrategy.make(ExplorationConfig(), setting) == "evolution"


def test_a_strategy_takes_starts_and_proposes_quickly():
    (start,) = dict(RandomSampler(SamplerSetting(TASK, TARGET, per_round=1, seed=3, threads=1)).propose())
    sampler, _ = sampler_of()
    strategy = ExplorationStrategy(sampler, None)
    ((trace, _),) = strategy.take_starts([start, "no trace"])
    assert trace == start and sampler._parents() == [start]
    assert start not in {trace for trace, _ in strategy.propose(RoundBudget(4, quick=True))}


# --- checkpoints


def test_an_explorer_of_other_actions_is_refused(tmp_path):
    folder = explorer_checkpoint(tmp_path / "other", version="draft-1 adjacent-0")
    with pytest.raises(ActionSpaceError, match=r"'draft-1 adjacent-0'.*has 'draft-1 adjacent-1': train"):
        ExplorationStrategy.fitted(ExplorationConfig(checkpoint=str(folder)), TARGET)


def test_checkpoints_of_the_other_kind_are_refused(tmp_path):
    with pytest.raises(CheckpointKindError, match="is a cost model"):
        load_explorer("cpu-draft")
    folder = explorer_checkpoint(tmp_path / "explorer")
    with pytest.raises(CheckpointKindError, match="is an explorer, which scores no programs"):
        load_checkpoint(folder)
    with pytest.raises(CheckpointNotFoundError):
        ExplorationStrategy.fitted(ExplorationConfig(checkpoint="nowhere"), TARGET)
    with pytest.raises(FeatureVersionError):
        Environment.load(str(random_checkpoint(tmp_path / "model")))


def test_a_target_without_an_explorer_is_searched_by_evolution(caplog):
    with caplog.at_level(logging.WARNING):
        fitted = ExplorationStrategy.fitted(ExplorationConfig(), parse_target("nvidia/nvidia-a100"))
    assert fitted == EvolutionaryConfig()
    assert "no explorer for cuda targets comes with foretune" in caplog.text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mode": "fast"}, "mode=fast: use one of high_efficiency"),
        ({"walks": 0}, "walks=0: must be at least"),
    ],
)
def test_settings_out_of_range_are_named(change, message):
    with pytest.raises(OneShotConfigError, match=message):
        OneShotConfig({"name": "dqn", **change})


# --- presets


def composed(*overrides: str) -> TuneConfig:
    with initialize_config_module("foretune.conf", version_base="1.3"):
        return from_hydra(compose("tune", overrides=list(overrides)), TuneConfig)


def test_high_efficiency_is_one_iteration_whose_best_is_taken():
    search = composed("search=fasor").search
    assert search.strategy == ExplorationConfig()
    assert (search.rounds, search.proposed, search.measure, search.starts) == (1, 64, False, "pretuned")
    assert search.templates == 1
    quality = composed("search=fasor_high_quality").search
    assert quality.strategy == ExplorationConfig(mode="high_quality", iterations=16)
    assert quality.measure and quality.templates == 4 and quality.starts == "pretuned"


def test_a_network_is_searched_by_fasor(tmp_path):
    assert shipped_explorers() == ["cpu-explorer"]
    settings = composed(
        *("search=fasor", "network=torch.nn:Linear", "inputs=[[64,256]]", "executor=none", "rivals=[]"),
        *("kwargs={in_features: 256, out_features: 256}", "search.processes=0", "search.top_k=16"),
        *(f"output={tmp_path}/report", f"database={tmp_path}/database"),
        *("search.strategy.candidates=16", "search.max_code=null", "search.templates=0"),
    )
    result = run(settings, Console(quiet=True))
    assert result.settings["search"]["strategy"]["checkpoint"] == "cpu-explorer"
    (task,) = result.tasks
    assert task.predicted and task.candidates_measured == 0
    assert task.candidates_drafted >= 16 and task.candidates_scored > 4


def test_a_search_finds_better_programs_than_its_random_starts():
    """The shipped explorer, by the environment's own score."""
    explorer, _ = load_explorer("cpu-explorer")
    environment = Counting()
    sampler, _ = sampler_of(
        resources=ExplorerResources(explorer, environment, CPU),
        config=ExplorationConfig(candidates=64, draws=8, walks=4, epsilon=0.0),
    )
    best = sampler._walked(1)
    assert len(best) >= 48
    space = next(s for s in sampler._spaces if s.space.sketch.values_in(best[0]) is not None)
    rows = space.space.choices(np.array([space.space.sketch.values_in(best[0])]))
    at_random = space.draw(64, np.random.default_rng(5))
    time = environment.observe([space], [rows]).time[0]
    assert time < np.median(environment.observe([space], [at_random]).time)


def test_the_default_of_the_search_is_left_alone():
    assert composed().search == OneShotConfig()
