"""Comparisons: a shared split, stored fits, learning curves on nested parts, and consistent results."""

from __future__ import annotations

import csv
import io
import json
import shutil
from contextlib import nullcontext
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from foretune.compiler.structure import DRAFT_VERSION
from foretune.configuration import ConfigError, from_hydra
from foretune.dataset.records.split import SplitConfig, split_rows
from foretune.models.architectures.gbdt import GbdtConfig
from foretune.models.checkpoints.checkpoint import load_checkpoint
from foretune.models.scaling.target import TargetConfig, TargetError
from foretune.terminal import print_table
from foretune.training.compare import comparison_table, networks_table, run, train_settings
from foretune.training.comparison.config import CompareConfig, ContestantConfig, contestants_of, deep_merge
from foretune.training.comparison.contestants import (
    ChanceContestant,
    SeenTasksError,
    TrainedContestant,
    TreesContestant,
)
from foretune.training.comparison.fits import TaskSet
from foretune.training.comparison.learning_curve import CurveConfig, training_sets
from foretune.training.comparison.other_data import (
    OtherDataError,
    with_other_test_data,
    with_other_training_data,
)
from foretune.training.evaluation.task_scores import NothingToEvaluateError
from foretune.training.fitting.feature_source import drafts_of
from foretune.training.fitting.labels import Labels
from foretune.training.train import train_model
from hydra import compose, initialize_config_module
from rich.console import Console
from support.paths import ROOT
from support.synthetic import dataset

VERSION = "test"
TINY = {
    "model": {"name": "mlp", "arguments": {"width": 8}},
    "trainer": {"max_epochs": 2, "progress_bar": False},
}
TINY_DRAFT = {**TINY, "model": {"name": "draft", "arguments": {"width": 8}}}


@pytest.fixture(scope="module")
def data():
    return dataset(tasks=16, per_task=12)


@pytest.fixture(scope="module", autouse=True)
def hydra_configuration():
    with initialize_config_module("foretune.conf", version_base="1.3"):
        yield


def settings(folder, **changes):
    plain = {
        "dataset": folder / "none",
        "run_dir": folder / "run",
        "fits_dir": folder / "fits",
        "models": ["mlp", "trees", "random"],
        "contestants": {
            "mlp": {"train": TINY},
            "trees": {"trees": {"rounds": 5, "max_depth": 3}},
            "random": {"chance": True},
        },
        "baseline": "trees",
        "split": SplitConfig(test=0.25, validation=0.2),
    }
    return CompareConfig(**{**plain, **changes})


def compared(config, data, others=None, page=False):
    contestants = contestants_of(config, train_settings, VERSION)
    told = []
    load = {config.dataset: data, **(others or {})}
    with nullcontext() if page else patch("foretune.training.compare.write_report"):  # the page takes seconds
        return run(config, contestants, VERSION, load.__getitem__, told.append), told


@pytest.fixture(scope="module")
def first(data, tmp_path_factory):
    pytest.importorskip("xgboost")
    config = settings(tmp_path_factory.mktemp("compare"), seeds=[0, 1], curve=CurveConfig(tasks=["4", "all"]))
    return config, *compared(config, data, page=True)


def test_all_are_measured_on_the_same_held_out_tasks(first, data):
    config, result, _ = first
    split = split_rows(data, config.split)
    assert result.data["test_tasks"] == sorted(set(data.workload_hash[split.test]))
    assert [(entry.name, entry.seed) for entry in result.entries] == [
        ("mlp", 0),
        ("mlp", 1),
        ("trees", None),
        ("random", 0),
        ("random", 1),
    ]
    assert {entry.metrics.records for entry in result.entries} == {len(split.test)}
    drawn = np.random.default_rng(1).random(len(split.test), dtype=np.float32)
    np.testing.assert_array_equal(result.entries[-1].prediction, drawn)


def test_what_is_written(first):
    config, result, _ = first
    written = json.loads((config.run_dir / "compare.json").read_text())
    assert [row["name"] for row in written["contestants"]] == ["mlp", "trees", "random"]
    seeds = [entry.metrics.spearman for entry in result.of("mlp")]
    assert written["contestants"][0]["means"]["spearman"] == pytest.approx(np.mean(seeds))
    assert written["contestants"][0]["deviations"]["spearman"] == pytest.approx(np.std(seeds, ddof=1))
    assert written["contestants"][1]["deviations"]["spearman"] is None
    assert set(written["by_operator"]["trees"]) == {"conv2d", "dense", "batch_matmul"}
    assert len(written["fits"][0]["per_task"]) == 4
    with (config.run_dir / "compare.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["name"] for line in lines] == ["mlp", "mlp", "trees", "random", "random"]
    assert float(lines[2]["top_5_sums"]) == pytest.approx(result.of("trees")[0].metrics.top_5_sums)


def test_the_page_stands_alone(first):
    config, _, _ = first
    page = (config.run_dir / "compare.html").read_text()
    for text in ("Predicted against measured", "Learning curve over training tasks", "Margin against trees"):
        assert text in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")


def test_the_table_marks_the_best(first):
    _, result, _ = first
    console = Console(width=200, file=io.StringIO())
    print_table(comparison_table(result), console)
    text = console.file.getvalue()
    assert "4 held-out tasks, 48 records; means over 2 seeds" in text
    assert f"{result.of('trees')[0].metrics.pairwise_accuracy:.3f}" in text


def test_margins_by_hand(first):
    _, result, _ = first
    margin = result.margins("trees")["random"]["regret_5"]

    def of(name):
        return np.mean([[t.regret_5 for t in entry.metrics.per_task] for entry in result.of(name)], axis=0)

    # lower is better, so the margin is the baseline's regret minus the contestant's
    assert margin.ahead == pytest.approx(np.mean(of("trees") - of("random")))
    assert margin.low <= margin.ahead <= margin.high
    assert result.margins("nobody") == {}


def test_fits_are_read_back(first, data):
    config, before, told = first
    assert sum("fits" in line for line in told) == 5 + 2 * 1 + 1  # the whole set of the curve is reused
    again, told = compared(replace(config, models=["random", "trees", "mlp"]), data)
    assert all(entry.reused for entry in again.entries)
    assert again.of("mlp")[1].metrics == before.of("mlp")[1].metrics
    assert not any(line.endswith("fits") for line in told)


def test_another_setting_or_other_data_fits_again(first, data):
    config, before, _ = first
    config = replace(config, models=["trees"], curve=CurveConfig())
    for changed, on in [
        (replace(config, contestants={"trees": {"trees": {"rounds": 6, "max_depth": 3}}}), data),
        (replace(config, split=replace(config.split, seed=5)), data),
        (config, dataset(tasks=16, per_task=12, seed=3)),
    ]:
        assert not compared(changed, on)[0].entries[0].reused
    assert compared(config, data)[0].entries[0].metrics == before.of("trees")[0].metrics


def test_a_fit_cut_short_is_made_again(first, data):
    config, before, _ = first
    for file in config.fits_dir.glob("trees-*/fit.json"):
        file.unlink()
    entry = compared(replace(config, models=["trees"]), data)[0].entries[0]
    assert not entry.reused
    assert entry.metrics == before.of("trees")[0].metrics


# --- contestants


def test_settings_of_a_training_are_those_of_foretune_train(tmp_path):
    config = settings(
        tmp_path,
        models=["deep"],
        contestants={"deep": {"train": {"model": "lstm", "optimiser": {"learning_rate": 0.5}}}},
        train={"trainer": {"max_epochs": 3}, "optimiser": {"learning_rate": 0.1, "warmup": 0.2}},
    )
    (contestant,) = contestants_of(config, train_settings, VERSION)
    assert isinstance(contestant, TrainedContestant)
    trained = contestant.config
    assert (trained.model.name, trained.model.arguments["layers"]) == ("lstm", 2)
    assert (trained.optimiser.learning_rate, trained.optimiser.warmup) == (0.5, 0.2)
    assert trained.trainer.max_epochs == 3
    wider = train_settings("x", {"model": {"arguments": {"width": 64}}}).model
    assert (wider.name, wider.arguments["width"], wider.arguments["layers"]) == ("transformer", 64, 3)
    assert train_settings("x", TINY).model.arguments == {"width": 8}
    assert "split" not in contestant.settings()


def test_deep_merge_by_hand():
    assert deep_merge({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 9}, "d": {"e": 1}}) == {
        "a": {"b": 9, "c": 2},
        "d": {"e": 1},
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"models": []}, "must not be empty"),
        ({"seeds": [1, 1]}, r"seeds=\[1, 1\] contains a value twice"),
        ({"contestants": {"x": {}}}, "contestants.x: a contestant has 0 of train, trees, chance"),
        ({"contestants": {"x": {"chance": True, "trees": {}}}}, "has 2 of"),
        ({"contestants": {"x": {"dance": True}}}, "contestants.x: .*dance"),
        ({"curve": CurveConfig(models=["lstm"])}, "curve.models: 'lstm' is not among"),
    ],
)
def test_settings_that_do_not_fit_are_refused(tmp_path, changes, message):
    with pytest.raises(ConfigError, match=message):
        settings(tmp_path, **changes)


@pytest.mark.parametrize(
    ("contestant", "message"),
    [
        ({"train": {"model": "perceptron"}}, "contestants.x.train.model: .*perceptron"),
        ({"train": {"optimiser": {"speed": 1}}}, "contestants.x.train: .*speed"),
        ({"trees": {"depth": 1}}, "contestants.x.trees: .*depth"),
    ],
)
def test_settings_that_training_refuses_are_named(tmp_path, contestant, message):
    config = settings(tmp_path, models=["x"], contestants={"x": contestant})
    with pytest.raises(ConfigError, match=message):
        contestants_of(config, train_settings, VERSION)


def test_a_checkpoint_takes_part_where_it_has_not_seen_the_tests(first, data, tmp_path):
    config, before, _ = first
    folders = config.fits_dir.glob("mlp-*/checkpoint")
    cards = {folder: json.loads((folder / "card.json").read_text()) for folder in folders}
    whole = {folder: card["seed"] for folder, card in cards.items() if len(card["split"]["train_tasks"]) == 9}
    folder, seed = whole.popitem()
    config = replace(config, models=[str(folder)], curve=CurveConfig(), fits_dir=tmp_path)
    entry = compared(config, data)[0].entries[0]
    assert entry.metrics == before.of("mlp")[seed].metrics
    with pytest.raises(SeenTasksError, match=r"has seen \d of 4 test tasks.*of its comparison"):
        compared(replace(config, split=replace(config.split, seed=9)), data)
    assert entry.seed is None


def trained(folder, data, tasks):
    """Checkpoint of a model that has seen these tasks."""
    config = replace(
        train_settings("x", TINY),
        run_dir=folder / "run",
        checkpoint_dir=folder / "checkpoint",
        split=SplitConfig(test=0, validation=0),
    )
    known = data.take(np.flatnonzero(np.isin(data.workload_hash, tasks)))
    return str(train_model(config, known, VERSION).checkpoint_dir)


def test_a_model_trained_further_is_tested_on_the_tasks_that_all_are_tested_on(tmp_path, data):
    config = settings(tmp_path, models=["further"])
    split = split_rows(data, config.split)
    train, validation, test = (
        sorted(set(data.workload_hash[split.part(part)])) for part in ("train", "validation", "test")
    )

    def further(start):
        return replace(config, contestants={"further": {"train": {**TINY, "start_from": start}}})

    start = trained(tmp_path / "start", data, [train[0], validation[0]])
    compared(further(start), data)
    (folder,) = config.fits_dir.glob("further-trained-*/checkpoint")
    parts = load_checkpoint(folder, VERSION).card.split
    assert set(parts.train_tasks) == {*train, validation[0]} and parts.validation_tasks == validation[1:]
    # A checkpoint of other weights at the same path is another start.
    shutil.rmtree(tmp_path / "start")
    assert trained(tmp_path / "start", data, train[:2]) == start
    assert not compared(further(start), data)[0].entries[0].reused
    seen = trained(tmp_path / "seen", data, [train[0], test[0]])
    with pytest.raises(SeenTasksError, match=r"further: .* has seen 1 of 4 test tasks"):
        compared(further(seen), data)


def test_an_interrupted_training_goes_on_for_other_test_tasks(tmp_path, data):
    config = settings(tmp_path, models=["mlp"])
    (before,) = compared(config, data)[0].entries
    (folder,) = config.fits_dir.glob("mlp-trained-*")
    for interrupted in (folder / "checkpoint", *config.fits_dir.glob("mlp-*")):
        if interrupted != folder:
            shutil.rmtree(interrupted)
    other = dataset(tasks=20, per_task=5, seed=7)
    elsewhere = replace(config, test_dataset=tmp_path / "other")
    _, told = compared(elsewhere, data, {tmp_path / "other": other})
    assert any("continues its interrupted training" in line for line in told)
    (again,) = compared(config, data)[0].entries
    np.testing.assert_array_equal(again.prediction, before.prediction)


def test_a_model_of_efficiencies_is_compared_by_scores_and_by_latencies(data, tmp_path):
    train = {**TINY, "target": {"name": "efficiency"}}
    config = settings(tmp_path, models=["mlp"], contestants={"mlp": {"train": train}})
    (entry,) = compared(config, data)[0].entries
    for task in entry.metrics.per_task:
        split = split_rows(data, config.split)
        own = entry.prediction[Labels.of(data).group[split.test] == task.group]
        assert own.max() == 1  # the best prediction of a task has the score 1
    assert entry.facts["latency_r2"] <= 1
    with pytest.raises(TargetError, match="trees are fitted to scores"):
        TreesContestant("trees", GbdtConfig(), TargetConfig("efficiency"))


def test_a_name_that_is_nothing_is_refused(tmp_path):
    config = settings(tmp_path, models=["nobody"])
    with pytest.raises(ConfigError, match=r"'nobody' is not a contestant \(mlp, trees, random\), and no"):
        contestants_of(config, train_settings, VERSION)


# --- networks


def test_networks_are_measured(tmp_path, data):
    config = settings(tmp_path, models=["random"], split=SplitConfig(by="network", networks=["resnet"]))
    result, _ = compared(config, data, page=True)
    assert "Top-5 score by network" in (config.run_dir / "compare.html").read_text()
    named = [network["network"] for network in result.by_network("random")]
    assert named == ["resnet", "all networks"]
    assert set(result.data["test_tasks"]) == {"task003", "task015"}
    console = Console(width=120, file=io.StringIO())
    print_table(networks_table(result), console)
    (line,) = [line for line in console.file.getvalue().splitlines() if "resnet (100%)" in line]
    figures = result.by_network("random")[0]
    columns = ("top_1", "top_5", "top_1_sums", "top_5_sums")
    assert line.split() == ["resnet", "(100%)", "random", *(f"{figures[name]:.3f}" for name in columns)]
    by_task = replace(result, entries=[replace(e, networks=[], all_networks=None) for e in result.entries])
    assert not networks_table(by_task)


# --- parts of the data


def test_curves_are_trained_on_nested_parts_with_the_tests_kept(data):
    config = SplitConfig(test=0.25, validation=0.2)
    split = split_rows(data, config)
    curve = CurveConfig(tasks=["2", "5", "all", "99"], records_per_task=["3", "all"])
    sets = list(training_sets(data, config, split, curve))
    assert [(s.axis, s.size, s.tasks, s.records) for s in sets] == [
        ("tasks", 2, 2, 24),
        ("tasks", 5, 5, 60),
        ("tasks", 9, 9, 108),
        ("records_per_task", 3, 9, 27),
        ("records_per_task", 12, 9, 108),
    ]
    trained = []
    for part in sets:
        own = split_rows(part.data, part.split)
        for name in ("validation", "test"):
            np.testing.assert_array_equal(
                part.data.latency_s[own.part(name)], data.latency_s[split.part(name)]
            )
        trained.append(set(part.data.latency_s[own.train]))
    assert trained[0] < trained[1] < trained[2] == trained[4] and trained[3] < trained[4]
    assert sets[2].split is config


@pytest.mark.parametrize("size", ["0", "-1", "many", "1.5"])
def test_sizes_that_are_none_are_refused(size):
    with pytest.raises(ConfigError, match="is not a size"):
        CurveConfig(tasks=[size])


def test_tasks_of_another_dataset_are_trained_on(tmp_path, data):
    config = SplitConfig(test=0.25, validation=0.2)
    split = split_rows(data, config)
    other = dataset(tasks=18, per_task=5, seed=7)
    mixed, by = with_other_training_data(data, split, other)
    own = split_rows(mixed, by)
    np.testing.assert_array_equal(mixed.latency_s[own.test], data.latency_s[split.test])
    assert len(set(mixed.workload_hash[own.train])) == 18 - 4 - 3
    assert set(mixed.latency_s[own.train]) <= set(other.latency_s)
    whole = data.features.batch(split.test)
    np.testing.assert_array_equal(mixed.features.batch(own.test).stores, whole.stores)
    only_tests = data.take(split.test)
    with pytest.raises(OtherDataError, match="all its records have shapes of test or validation"):
        with_other_training_data(data, split, only_tests)
    contestants = {"other": {"chance": True, "dataset": str(tmp_path / "other")}}
    chosen = settings(tmp_path, models=["other"], contestants=contestants)
    result, told = compared(chosen, data, {chosen.contestant("other").dataset: other})
    assert result.entries[0].metrics.records == len(split.test)
    assert told[0].startswith("other is trained on")


def test_all_are_tested_on_another_dataset(tmp_path, data):
    # The first 16 of its 20 tasks have the names of training tasks.
    other = dataset(tasks=20, per_task=5, seed=7)
    config = settings(tmp_path, models=["mlp", "draft", "random"], test_dataset=tmp_path / "other")
    config = replace(config, contestants={**config.contestants, "draft": {"train": TINY_DRAFT}})
    other_folder = tmp_path / "other"
    other_folder.mkdir()
    (other_folder / "networks.json").write_text('{"net": {"task017": 3, "task001": 1}}')
    result, told = compared(config, data, {other_folder: other}, page=True)
    assert told[0].startswith(f"tested on the tasks of {other_folder} except for 16, whose")
    assert "4 test tasks of the latter are unused: split.test=0" in told[0]
    rest = np.flatnonzero(np.isin(other.workload_hash, ["task016", "task017", "task018", "task019"]))
    np.testing.assert_array_equal(result.tasks.latency_s, other.latency_s[rest])
    assert result.data["tasks"] == {"train": 9, "validation": 3, "test": 4}
    assert (result.data["common_tasks"], result.data["unused_tasks"]) == (16, 4)
    assert result.data["test_dataset"] == str(other_folder)
    assert [row["network"] for row in result.by_network("mlp")] == ["net", "bert", "all networks"]
    assert result.by_network("mlp")[0]["share"] == 0.75
    assert "16 more are left out" in (config.run_dir / "compare.html").read_text()
    with pytest.raises(OtherDataError, match="has the shapes of all its tasks"):
        compared(replace(config, test_dataset=tmp_path / "same"), data, {tmp_path / "same": data})


def test_shapes_in_common_are_left_out(data):
    other = dataset(tasks=20, per_task=5, seed=7)
    # One of the four tasks that `data` lacks has the shape of one of its tasks.
    shape = np.where(other.workload_hash == "task017", "task003", other.shape)
    tested = with_other_test_data(data, split_rows(data, SplitConfig()), replace(other, shape=shape))
    assert tested.common_tasks == 17
    assert tested.split.test_tasks == ["task016", "task018", "task019"]


def test_what_was_trained_serves_other_test_tasks(tmp_path, data):
    config = settings(tmp_path, models=["mlp"])
    compared(config, data)
    (folder,) = config.fits_dir.glob("mlp-trained-*")
    before = (folder / "checkpoint" / "card.json").stat().st_mtime_ns
    other = dataset(tasks=20, per_task=5, seed=7)
    elsewhere = replace(config, test_dataset=tmp_path / "other")
    entry = compared(elsewhere, data, {tmp_path / "other": other})[0].entries[0]
    assert list(config.fits_dir.glob("mlp-trained-*")) == [folder]
    assert (folder / "checkpoint" / "card.json").stat().st_mtime_ns == before and not entry.reused
    predictor = load_checkpoint(folder / "checkpoint", VERSION).predictor
    rows = np.flatnonzero(np.isin(other.workload_hash, ["task016", "task017", "task018", "task019"]))
    np.testing.assert_allclose(
        entry.prediction, predictor.predict_table(other.features, rows), rtol=1e-4, atol=1e-5
    )
    # Other validation tasks make it another training.
    compared(replace(config, split=replace(config.split, validation=0.1)), data)
    assert len(list(config.fits_dir.glob("mlp-trained-*"))) == 2


def test_a_comparison_ends_in_time_and_goes_on(tmp_path, data, monkeypatch):
    clock = iter(range(0, 10_000, 40))  # seconds at each reading
    monkeypatch.setattr("foretune.training.compare.time.monotonic", lambda: next(clock))
    contestants = {name: {"chance": True} for name in "abcd"}
    config = settings(tmp_path, models=list("abcd"), contestants=contestants, baseline="a", budget_s=90.0)
    result, told = compared(config, data)  # starts at 0 s and reads 40, 80, 120 and 160 s
    assert result.names() == ["a", "b"] and result.data["left_out"] == ["c", "d"]
    assert "[3/4] c: left out, the time is up" in told
    assert compared(config, data)[0].names() == ["a", "b", "c", "d"]
    with pytest.raises(ConfigError, match="over before the first fit"):
        compared(replace(config, budget_s=6.0, fits_dir=tmp_path / "none"), data)
    with pytest.raises(ConfigError, match="budget_s=0: set it above 0"):
        replace(config, budget_s=0)


# --- models of draft features


def test_draft_models_are_compared_on_the_same_rows(tmp_path, data):
    config = settings(tmp_path, models=["mlp", "draft"])
    config = replace(config, contestants={**config.contestants, "draft": {"train": TINY_DRAFT}})
    result, _ = compared(config, data)
    assert {entry.metrics.records for entry in result.entries} == {len(split_rows(data, config.split).test)}
    (folder,) = config.fits_dir.glob("draft-*/checkpoint")
    checkpoint = load_checkpoint(folder, DRAFT_VERSION)
    rows = split_rows(data, config.split).test
    drafted = drafts_of(data)
    assert drafted.features.stores.size == 0 == drafted.features.decisions.size
    np.testing.assert_allclose(
        result.of("draft")[0].prediction,
        checkpoint.predictor.predict_table(drafted.features, rows),
        rtol=1e-5,
        atol=1e-6,
    )
    # A checkpoint of a draft model is compared, too, with a model of programs.
    again, _ = compared(replace(config, models=["mlp", str(folder)], fits_dir=tmp_path / "others"), data)
    assert again.of(str(folder))[0].metrics == result.of("draft")[0].metrics


def test_failures_alone_are_nothing_to_evaluate(data):
    latency_s = data.latency_s.copy()
    latency_s[:12] = np.inf
    with pytest.raises(NothingToEvaluateError, match="none ran"):
        TaskSet.of(replace(data, latency_s=latency_s), np.arange(12), {})
    latency_s[:12] = 1e-3
    with pytest.raises(NothingToEvaluateError, match="no test task has two programs of different latency"):
        TaskSet.of(replace(data, latency_s=latency_s), np.arange(12), {})


# --- configuration


def test_the_shipped_configuration_is_valid():
    config = from_hydra(compose("compare", ["dataset=d", "run_dir=r"]), CompareConfig)
    assert config.models == ["transformer", "mlp", "lstm", "one_shot_tuner", "xgb", "xgb_task", "random"]
    by_name = {c.name: c for c in contestants_of(config, train_settings, VERSION)}
    assert by_name["xgb"] == TreesContestant("xgb", GbdtConfig())  # TVM's settings
    assert by_name["random"] == ChanceContestant("random")
    assert by_name["one_shot_tuner"].config.model.arguments["width"] == 1024
    assert ContestantConfig(chance=True).dataset is None


EXPERIMENTS = ROOT / "conf" / "experiment"


@pytest.mark.parametrize("file", sorted(EXPERIMENTS.glob("*.yaml")), ids=lambda file: file.stem)
def test_experiments_are_valid(file):
    # its header has the launch
    assert f"experiment={file.stem}\n" in file.read_text()
    overrides = ["dataset=d", "run_dir=r", f"experiment={file.stem}"]
    config = from_hydra(compose("compare", overrides), CompareConfig)
    assert len(contestants_of(config, train_settings, VERSION)) == len(config.models)
    assert config.baseline in config.models
