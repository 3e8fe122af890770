"""Samplers by the networks that they tune: the order of the work."""

from __future__ import annotations

from foretune.configuration import from_hydra
from foretune.dataset.generation.config import GenerateConfig
from foretune.dataset.records.store import RecordStore
from support.composition import composed
from support.paths import ROOT
from support.small_datasets import small_dataset

from benchmarks import one_shot_tuner as samplers
from benchmarks.kept_runs import KeptRuns
from benchmarks.networks import contest
from benchmarks.one_shot_tuner import arguments_of, measured


def test_datasets_grow_in_turns_and_each_round_begins_with_the_next():
    pairs = ["a", "b", "c"]
    turns = list(samplers.growth(45, pairs))
    rounds = {20: "abc", 40: "bca", 45: "cab"}
    assert turns == [(pair, size) for size, order in rounds.items() for pair in order]


def test_foretune_reads_the_sampling_of_every_pair(tmp_path):
    for pair in samplers.SAMPLERS:
        words = [*samplers.sampling(pair), "tasks=1", f"dataset={tmp_path}"]
        config = from_hydra(composed("generate", *words), GenerateConfig)
        rounds = -(-config.records_per_task // config.per_round)
        guides = config.program_sampling.sampler == "evolutionary"
        assert guides != pair.endswith("random")
        if guides:
            assert rounds - 1 >= 8 and config.program_sampling.random_share == 0
            assert config.program_sampling.scorer == ("cpu" if "pretrained" in pair else "xgboost")
    assert samplers.SAMPLERS["random_random"][0] == "task_sampling.sampler=uniform"
    assert samplers.folder_of(tmp_path, "zoo_ebs").name == "samplers-zoo-ebs-4"
    assert samplers.folder_of(tmp_path, "zoo_random").name == "samplers-zoo-random"


def test_programs_after_the_first_round_of_xgboost_are_guided(tmp_path):
    small_dataset(ROOT / "data" / "samplers-pgs-ebs", tmp_path / "one", tasks=1, records=40)
    rounds = [record.round for record in RecordStore(tmp_path / "one").records()]
    found = samplers.size_of(tmp_path / "one")
    assert found["tasks"] == 1 and 0 < found["guided"] == sum(number > 0 for number in rounds) < len(rounds)
    assert samplers.size_of(tmp_path / "none") == {"tasks": 0, "records": 0, "guided": 0}
    small_dataset(ROOT / "data" / "samplers-pgs-random", tmp_path / "random", tasks=1, records=40)
    assert samplers.size_of(tmp_path / "random")["guided"] == 0


def test_the_work_goes_on_where_it_was(tmp_path, monkeypatch):
    done = []

    def grow(folder, pair, tasks):
        assert folder == samplers.folder_of(tmp_path / "data", pair)
        done.append((pair, tasks))

    def fitted(dataset, folder, on, seed):
        done.append((folder.name, seed))
        return {"spearman": 0.5 + 0.1 * seed, "top_1": 0.8}

    def one_of_each(network, seed, folder, searches, overrides):
        done.append((network, list(searches)))
        model = tmp_path / "models" / f"zoo_random-{seed}" / "checkpoint"
        assert searches["zoo_random"][-1] == f"checkpoint={model}"
        run = {"seed": seed, "measured": 8, "search_s": 1.0}
        return {**dict.fromkeys(searches, run), "side_by_side_s": dict.fromkeys(searches, 0.01)}

    monkeypatch.setattr(samplers, "grow", grow)
    monkeypatch.setattr(samplers, "fitted", fitted)
    monkeypatch.setattr(samplers, "shared_tasks", lambda folder, networks: 2)
    monkeypatch.setattr(contest, "one_of_each", one_of_each)
    words = ["--size", "20", "--networks", "resnet18", "--runs-in", str(tmp_path)]
    words += ["--data", str(tmp_path / "data"), "--pairs", "zoo_random", "--runs", "2"]
    late = arguments_of([*words, "--minutes", "-1"])
    runs = KeptRuns(late, 1.0)
    assert measured(late, runs)["networks"] == {} and runs.left_out == ["data-pgs_ebs-20"]
    arguments = arguments_of(words)
    found = measured(arguments, KeptRuns(arguments, 1.0))
    pairs = ["pgs_ebs", "zoo_random"]
    assert done == [
        *((pair, 20) for pair in pairs),
        *((f"{pair}-0", 0) for pair in pairs),
        *((f"{pair}-1", 1) for pair in reversed(pairs)),
        *[("resnet18", pairs)] * 2,
    ]
    assert found["models"]["zoo_random"]["ranking"] == {"spearman": 0.55, "top_1": 0.8}
    assert found["models"]["pgs_ebs"]["shared_tasks"] == 2
    assert measured(arguments, KeptRuns(arguments, 1.0)) == found and len(done) == 8
