"""Checkpoints are saved and loaded unchanged; damaged or foreign files are refused with a remedy."""

import hashlib
import json
import pickle
from dataclasses import asdict

import numpy as np
import pytest
import torch
from foretune.compiler.host.threads import linear_algebra_threads
from foretune.models.architectures.cost_model import Predictor
from foretune.models.architectures.registry import ModelConfig, build_model
from foretune.models.checkpoints import checkpoint as module
from foretune.models.checkpoints.card import Card, Provenance, git_revision
from foretune.models.checkpoints.checkpoint import (
    CheckpointExistsError,
    CheckpointNotFoundError,
    CorruptCheckpointError,
    FeatureVersionError,
    check_checkpoint,
    load_card,
    load_checkpoint,
    save_checkpoint,
    shipped_checkpoints,
)
from foretune.models.scaling.normaliser import Normaliser
from foretune.models.scaling.target import TargetConfig
from support.cards import edit_card
from support.synthetic import MODEL, make_card, table


@pytest.fixture
def saved(tmp_path):
    """Directory of a saved checkpoint, and its expected scores for `table(6, seed=9)`."""
    normaliser = Normaliser.fit(table(20), np.arange(20))
    torch.manual_seed(1)
    model = build_model(MODEL, normaliser.dims)
    save_checkpoint(tmp_path / "saved", model, make_card(normaliser))
    predictor = Predictor(normaliser, model, TargetConfig("log_score"))
    return tmp_path / "saved", predictor.predict(table(6, seed=9).batch())


def test_a_loaded_checkpoint_predicts_the_same_and_keeps_its_card(saved):
    directory, expected = saved
    random_state = torch.get_rng_state()
    with linear_algebra_threads(2):
        loaded = load_checkpoint(directory, "7")
        assert torch.get_num_threads() == 2
    np.testing.assert_array_equal(loaded.predictor.predict(table(6, seed=9).batch()), expected)
    assert not loaded.predictor.model.training
    assert torch.equal(torch.get_rng_state(), random_state)
    card = loaded.card
    assert (card.feature_version, card.seed, card.model, card.target.name) == ("7", 5, MODEL, "log_score")
    assert card.split.tasks("train") == ["t0", "t1"] and card.split.tasks("test") == ["t3"]
    assert card.metrics == {"test": {"spearman": 0.8, "r2": None}}
    assert card.data.hardware_ids == ["cpu-test"]
    assert card.provenance == Provenance(**asdict(card.provenance))
    assert card.provenance.torch == torch.__version__ and card.provenance.git_revision == git_revision()


def test_the_directory_holds_two_files_and_nothing_is_left_beside_it(saved):
    directory, _ = saved
    assert sorted(file.name for file in directory.iterdir()) == ["card.json", "model.safetensors"]
    assert [entry.name for entry in directory.parent.iterdir()] == ["saved"]
    # The card is readable: one line for each list of numbers.
    assert (directory / "card.json").read_text().count("\n") < 150


def test_a_failed_save_leaves_nothing(tmp_path, monkeypatch):
    normaliser = Normaliser.fit(table(4), np.arange(4))
    monkeypatch.setattr(Card, "to_json", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save_checkpoint(tmp_path / "new", build_model(MODEL, normaliser.dims), make_card(normaliser))
    assert list(tmp_path.iterdir()) == []


def test_an_existing_directory_is_not_overwritten(saved):
    directory, _ = saved
    loaded = load_checkpoint(directory)
    with pytest.raises(CheckpointExistsError, match="remove it or choose another"):
        save_checkpoint(directory, loaded.predictor.model, loaded.card)


def test_a_name_without_a_slash_is_one_that_comes_with_the_package(saved, monkeypatch):
    directory, _ = saved
    monkeypatch.setattr(module, "SHIPPED", directory.parent)
    assert shipped_checkpoints() == ["saved"]
    assert load_checkpoint("saved").path == directory
    with pytest.raises(
        CheckpointNotFoundError, match=r"no checkpoint 'other'.*shipped checkpoints \(saved\)"
    ):
        load_checkpoint("other")


def test_a_local_directory_given_without_a_slash_gets_a_hint(saved, monkeypatch):
    directory, _ = saved
    monkeypatch.chdir(directory.parent)
    with pytest.raises(CheckpointNotFoundError, match=r"write \./saved"):
        load_checkpoint("saved")
    assert load_checkpoint("./saved").card.seed == 5


@pytest.mark.parametrize("path", ["", ".", "..", "a/b", "/nowhere/at/all"])
def test_what_is_not_there_is_not_found(path):
    with pytest.raises((CheckpointNotFoundError, CorruptCheckpointError)):
        load_checkpoint(path)


def test_another_feature_version_says_what_to_do(saved):
    with pytest.raises(FeatureVersionError, match=r"version 7,.*computes 8: use a checkpoint of version 8"):
        load_checkpoint(saved[0], "8")


def test_a_check_builds_no_model_and_notices_the_same_faults(saved, monkeypatch):
    directory, _ = saved
    monkeypatch.setattr(module, "build_network", None)
    assert check_checkpoint(directory, "7").weights_sha256 == load_card(directory).weights_sha256
    with pytest.raises(FeatureVersionError):
        check_checkpoint(directory, "8")
    weights = directory / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"!")
    with pytest.raises(CorruptCheckpointError, match="the file was damaged or replaced"):
        check_checkpoint(directory, "7")
    weights.unlink()
    with pytest.raises(CorruptCheckpointError, match="is missing"):
        check_checkpoint(directory, "7")


def test_a_changed_weight_is_noticed(saved):
    file = saved[0] / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(CorruptCheckpointError, match="damaged or replaced"):
        load_checkpoint(saved[0])


def test_a_changed_card_is_noticed(saved):
    """Each of its numbers is in range."""
    file = saved[0] / "card.json"
    values = json.loads(file.read_text())
    file.write_text(json.dumps(values, indent=1))  # another layout says the same
    assert load_checkpoint(saved[0]).card.seed == 5
    values["normaliser"]["stores"]["mean"][0] += 0.5
    file.write_text(json.dumps(values))
    with pytest.raises(CorruptCheckpointError, match="do not have the hash that card_sha256 says; copy"):
        load_checkpoint(saved[0])
    del values["card_sha256"]
    file.write_text(json.dumps(values))
    assert load_checkpoint(saved[0]).card.seed == 5  # written by an earlier version


class Payload:
    """Unpickling it would create the file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_pickles_are_never_loaded(saved, tmp_path):
    directory, _ = saved
    bomb, trace = directory / "model.safetensors", tmp_path / "unpickled"
    bomb.write_bytes(pickle.dumps(Payload(trace)))
    with pytest.raises(CorruptCheckpointError, match="damaged or replaced"):
        load_checkpoint(directory)
    # not even if the card has the hash of the file

    edit_card(directory, weights_sha256=hashlib.sha256(bomb.read_bytes()).hexdigest())
    with pytest.raises(CorruptCheckpointError, match="is not a safetensors file"):
        load_checkpoint(directory)
    with pytest.raises(CorruptCheckpointError, match="never loaded"):
        load_checkpoint(bomb)
    assert not trace.exists()


def test_weights_of_another_shape_are_refused(saved, tmp_path):
    directory, _ = saved
    values = json.loads((directory / "card.json").read_text())
    wider = {**values["model"], "arguments": {**MODEL.arguments, "width": 40}}
    edit_card(directory, model=wider)
    with pytest.raises(
        CorruptCheckpointError,
        match=r"does not fit the model of its card.*width=40, and no tensor has",
    ):
        load_checkpoint(directory)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema_version": 99}, "schema_version is 99, and this version of foretune reads 1 to 7"),
        ({"schema_version": None}, "schema_version is None"),
        ({"model": {"name": "os.system", "arguments": {}}}, "model.name='os.system' is unknown"),
        ({"model": {"name": "transformer", "arguments": {"width": 16, "heads": 3}}}, "a multiple of heads"),
        ({"model": "transformer"}, "card.json: model is no JSON object"),
        ({"target": {"name": "flops"}}, "target.name='flops'"),
        ({"normaliser": {}}, "normaliser.'stores' is missing"),
        ({"dims": {"stores": 3}}, "dims.'decisions' is missing"),
        ({"dims": {"stores": 3, "decisions": 1, "task": 1, "hardware": 1}}, "differ from the normaliser's"),
        ({"data": {"sha256": ""}}, "data.'hardware_ids' is missing"),
        ({"seed": "five"}, "seed='five' must be a whole number of at least 0"),
        ({"seed": True}, "seed=True must be a whole number"),
        ({"std_scale": float("nan")}, "std_scale=nan must be a number from 1e-09 to 1e"),
        ({"std_scale": 0}, "std_scale=0 must be a number from"),
        ({"std_floor": -1.0}, "std_floor=-1.0 must be a number from 0"),
        ({"feature_version": 7}, "feature_version=7 must be a str"),
        ({"feature_version": "\x1b[2J"}, "feature_version has characters that do not print"),
        ({"metrics": {"test": {"spearman": "good"}}}, "metrics.test.spearman='good' must be a number"),
        ({"metrics": {"test": 3}}, "metrics.test=3 must be a dict"),
        ({"training": {"combined": [3]}}, r"training.combined\[0\]=3 must be a dict"),
        ({"training": {"combined": [{}]}}, r"training.combined\[0\].model=None must be a str"),
        ({"training": {"seconds": float("inf")}}, "training has a number that is not finite: inf"),
        ({"colour": "red"}, "'colour' is unknown"),
        ({"model": {"name": "transformer", "arguments": {"heads": 0}}}, "model.arguments.heads=0 must be"),
        ({"model": {"name": "mlp", "arguments": {"width": "wide"}}}, "model.arguments.width='wide' must be"),
        ({"model": {"name": "mlp", "arguments": {"dropout": 1e9}}}, "model.arguments.dropout=10+.0 must be"),
        ({"model": {"name": "mlp", "arguments": {}, "members": 100000}}, "members=100000 must be a whole"),
        (
            {"model": {"name": "mlp", "arguments": {}, "members": 0}},
            "members=0 must be a whole number from",
        ),
        ({"model": {"name": "mlp", "arguments": {}, "members": 60}}, "model.members=60, and the file has"),
        ({"model": {"name": "mlp", "arguments": {"width": 16384}}}, "width=16384, and no tensor has"),
        ({"target": {"name": "score", "max_slowdown": float("inf")}}, "target.max_slowdown=inf must be"),
    ],
)
def test_a_card_with_other_content_is_refused(saved, changes, message):
    edit_card(saved[0], **changes)
    with pytest.raises(CorruptCheckpointError, match=message):
        load_checkpoint(saved[0])


@pytest.mark.parametrize("content", ["", "{", "[1]", "null", "\udcff"])
def test_a_card_that_is_no_json_object_is_refused(saved, content):
    (saved[0] / "card.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(CorruptCheckpointError, match=r"card\.json"):
        load_checkpoint(saved[0])


def test_a_card_without_a_field_names_it(saved):
    file = saved[0] / "card.json"
    values = json.loads(file.read_text())
    del values["split"]
    file.write_text(json.dumps(values))
    with pytest.raises(CorruptCheckpointError, match="'split' is missing"):
        load_checkpoint(saved[0])


@pytest.mark.parametrize("name", ["card.json", "model.safetensors"])
def test_a_missing_file_is_named(saved, name):
    (saved[0] / name).unlink()
    with pytest.raises(CorruptCheckpointError, match=name):
        load_checkpoint(saved[0])


def test_every_shipped_checkpoint_loads_and_predicts():
    for name in shipped_checkpoints():
        loaded = load_checkpoint(name)
        assert loaded.card.weights_sha256 and loaded.card.metrics["test"]["spearman"] > 0


def test_the_card_knows_the_revision_only_of_its_own_checkout(monkeypatch, tmp_path):
    from foretune.models.checkpoints import card

    monkeypatch.setattr(card, "__file__", str(tmp_path / "site-packages/models/checkpoints/card.py"))
    assert git_revision() is None


def test_weights_are_saved_from_any_layout(tmp_path):
    """A transposed parameter is stored by its logical order, not by its order in memory."""
    normaliser = Normaliser.fit(table(8), np.arange(8))
    config = ModelConfig("mlp", {"width": 8})
    model = build_model(config, normaliser.dims)
    weight = model.store_encoder[0].weight
    weight.data = torch.randn(weight.shape[1], weight.shape[0]).t()
    save_checkpoint(tmp_path / "c", model, make_card(normaliser, config))
    again = load_checkpoint(tmp_path / "c").predictor.model
    assert torch.equal(again.store_encoder[0].weight, weight)
