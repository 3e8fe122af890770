"""Fasor's search compared with the default one, and the move to a new device: the runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from foretune.configuration import from_hydra
from foretune.dataset.generation.config import GenerateConfig
from foretune.dataset.records.store import RecordStore
from foretune.errors import UserError
from foretune.inference.pretune import PretuneConfig
from foretune.inference.run.config import TuneConfig
from foretune.training.exploration.config import ReinforceConfig
from foretune.training.fitting.config import TrainConfig
from foretune.training.transfer.config import FinetuneConfig
from support.composition import composed as config_of
from support.paths import ROOT
from support.small_datasets import small_dataset

from benchmarks.fasor import move as moving
from benchmarks.fasor.__main__ import arguments_of, networks
from benchmarks.fasor.move import Command, Move
from benchmarks.fasor.searches import MOVED, SEARCHES
from benchmarks.kept_runs import KeptRuns
from benchmarks.networks import contest
from benchmarks.tables.declare import names

CONFIGS = {
    "train": TrainConfig,
    "finetune": FinetuneConfig,
    "generate": GenerateConfig,
    "reinforce": ReinforceConfig,
    "pretune": PretuneConfig,
    "tune": TuneConfig,
}


def ran_of(default, fasor, **others):
    named = {"default": default, "fasor": fasor, **others}
    found = {name: {"seed": 0, "measured": n, "search_s": s} for name, (n, s, _) in named.items()}
    return {**found, "side_by_side_s": {name: latency for name, (*_, latency) in named.items()}}


def test_each_network_is_tuned_by_each_search_and_goes_on_where_it_was(tmp_path, monkeypatch):
    made = []

    def one_of_each(network, seed, folder, searches, overrides):
        made.append((network, seed, list(searches)))
        return ran_of((100, 50.0, 0.010), (0, 5.0, 0.011))

    monkeypatch.setattr(contest, "one_of_each", one_of_each)
    words = ["--networks", "resnet18", "vgg16", "--searches", "fasor", "--runs-in", str(tmp_path)]
    arguments = arguments_of(words)
    found = networks(arguments, KeptRuns(arguments, 1.0), None)["networks"]
    searches = ["default", "fasor"]
    assert made == [("resnet18", 0, searches), ("vgg16", 0, searches)]
    assert networks(arguments, KeptRuns(arguments, 1.0), None)["networks"] == found
    extended = KeptRuns(arguments, -1.0, earlier={"networks": {"resnet18": found["resnet18"]}})
    again = arguments_of([*words, "--again"])
    assert networks(again, extended, None)["networks"] == {"resnet18": found["resnet18"]}
    assert extended.left_out == ["vgg16-0"] and len(made) == 2
    more = arguments_of([*words[:3], "--searches", "fasor", "pretuned", *words[5:]])
    extended = KeptRuns(more, 1.0, earlier={"networks": found})
    assert [len(each["runs"]) for each in networks(more, extended, None)["networks"].values()] == [2, 2]
    assert made[2:] == [(name, 0, [*searches, "pretuned"]) for name in ("resnet18", "vgg16")]


def composed(words):
    """Settings of a command of foretune, as the command reads them."""
    command, *overrides = words
    named = [word.replace("hydra.run.dir=", "run_dir=") for word in overrides]
    return from_hydra(config_of(command, *named), CONFIGS[command])


def test_foretune_reads_every_command_of_a_move():
    move = Move(Path("/move"), k=7, records=5)
    commands = [*move.offline().values(), *move.adapting(2).values()]
    for words in (*(command.words for command in commands), *move.measuring(2)):
        composed(words)
    _, measured = map(composed, move.measuring(2))
    assert (measured.tasks, measured.records_per_task, measured.seed) == (7, 5, 2)
    plain = composed(move.adapting(2)["plain-draft"].words)
    assert (plain.checkpoint, plain.keep, plain.choice.k) == ("/move/source/model-draft", 0.0, 7)
    without = composed(move.offline()["explorer without ratio"].words)
    assert without.reward.high_efficiency.ratio == without.reward.high_quality.ratio == 0


@pytest.mark.parametrize("name", [name for name in MOVED if name != "stock"])
def test_foretune_reads_every_search_after_a_move(name):
    search = composed(["tune", *Move(Path("/move")).placed(MOVED[name], 3)]).search
    if name == "published":
        assert (search.space, search.sub_space.primitives) == ("sub_space", 7)
        assert (search.strategy.name, search.starts, search.measure) == ("dqn", "pretuned", False)
        assert search.strategy.environment == "/move/moved-3/plain-draft"
        assert search.pretuned.file == "/move/source/pretuned.parquet"


def test_the_source_has_no_record_of_this_machine(tmp_path):
    folders = [tmp_path / name for name in ("cpu-zen4", "cpu-zen5")]
    for folder in folders:
        small_dataset(ROOT / "data" / folder.name, folder, tasks=2, records=3)
    found = moving.gather(folders, tmp_path / "elsewhere", "zen4")
    records = RecordStore(tmp_path / "elsewhere").records()
    (device,) = RecordStore(folders[1]).hardware()
    assert {record.hardware_id for record in records} == {device}
    assert found == {"records": len(records), "tasks": 2, "machines": ["zen5"]} and len(records) == 6
    with pytest.raises(UserError, match="cpu-zen4: all records are of this machine, zen4"):
        moving.gather(folders[:1], tmp_path / "elsewhere", "zen4")


def test_a_move_goes_on_where_it_was_and_precedes_the_searches(tmp_path, monkeypatch):
    ran, tuned = [], []

    def python_in(root, words):
        command = words[2]
        ran.append(command)
        values = dict(word.split("=", 1) for word in words[3:] if "=" in word)
        if written := values.get("checkpoint_dir"):
            Path(written).mkdir(parents=True)
            (Path(written) / "card.json").write_text("{}")
        if command == "pretune":
            Path(values["into"]).write_text("")
        if command == "generate":
            small_dataset(ROOT / "data" / "cpu-zen5", Path(values["dataset"]), tasks=2, records=3)

    def one_of_each(network, seed, folder, searches, overrides):
        tuned.append((network, seed, searches["published"][4]))
        return ran_searches

    ran_searches = ran_of((100, 50.0, 0.010), (0, 5.0, 0.011))
    monkeypatch.setattr(moving, "python_in", python_in)
    monkeypatch.setattr(moving, "gather", lambda *of: {"records": 6, "tasks": 2, "machines": ["zen5"]})
    monkeypatch.setattr(moving, "machine_name", lambda hardware: "zen4")
    monkeypatch.setattr(moving, "asdict", lambda hardware: {})
    monkeypatch.setattr(contest, "one_of_each", one_of_each)
    words = ["--move", "--networks", "resnet18", "--searches", "published", "--runs", "2"]
    arguments = arguments_of([*words, "--runs-in", str(tmp_path)])
    late = KeptRuns(arguments_of([*words, "--runs-in", str(tmp_path), "--minutes", "-1"]), 1.0)
    assert networks(arguments, late, None) == {"k": 10, "move": None, "networks": {}}
    found = networks(arguments, KeptRuns(arguments, 1.0), None)
    once = ["train", "train", "reinforce", "reinforce", "pretune"]
    each = ["finetune", "generate", *["finetune"] * 4, *["train"] * 2]
    assert ran == [*once, *each, *each]
    assert [row["measured"] for row in found["move"]["seeds"]] == [6, 6]
    assert set(found["move"]["source"]["seconds"]) == set(Move(tmp_path).offline())
    assert [of[:2] for of in tuned] == [("resnet18", 0), ("resnet18", 1)]
    assert all(f"/moved-{seed}/plain" in checkpoint for _, seed, checkpoint in tuned)
    (tmp_path / "move" / "moved-1" / "mixed" / "card.json").unlink()
    networks(arguments, KeptRuns(arguments, 1.0), None)
    assert ran[len([*once, *each, *each]) :] == ["finetune"] and len(tuned) == 2


def test_an_interrupted_training_goes_on_and_a_checkpoint_is_made_anew(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(moving, "python_in", lambda root, words: ran.append(words[2:]))
    command = Command(("train", "seed=1"), tmp_path / "model")
    for folder in ("model", "model-run"):
        (tmp_path / folder / "log").mkdir(parents=True)
    (tmp_path / "model-run" / "last.ckpt").write_text("")
    assert command.run() >= 0 and list(tmp_path.iterdir()) == []
    command.run()
    assert ran == [["train", "seed=1", "resume=true"], ["train", "seed=1"]]
    assert command.done == tmp_path / "model" / "card.json"
    assert Command(("pretune",), tmp_path / "a.parquet").done == tmp_path / "a.parquet"


def test_the_searches_are_known():
    assert SEARCHES["default"] == MOVED["default"] == ()
    assert {*SEARCHES, *MOVED} - {"stock"} <= set(names()["search"])
    assert "stock" not in arguments_of(["--move"]).searches
    with pytest.raises(SystemExit):
        arguments_of(["--searches", "faster"])
