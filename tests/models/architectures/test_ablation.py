"""Each ablation removes the columns that its name says, and no others."""

import json
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from foretune.compiler.structure.read_sketch import read_sketch
from foretune.dataset.features.draft_vector import DEVICE_COLUMNS, DRAFT_DIM, DraftFeaturizer
from foretune.dataset.features.roofline import EARLIER_WORK_DIM, WORK_DIM, work_features
from foretune.dataset.features.table import COUNT_DIM
from foretune.dataset.features.vectors import TASK_DIM
from foretune.models.architectures.cost_model import Predictor
from foretune.models.architectures.registry import ModelConfig, build_model
from foretune.models.checkpoints.checkpoint import load_checkpoint, save_checkpoint
from foretune.models.scaling.normaliser import KINDS, Normaliser
from foretune.models.scaling.target import TargetConfig
from support.cards import edit_card
from support.drafts import CPU, matmul, matmul_trace
from support.synthetic import HARDWARE_DIM, make_card, table

MODELS = {
    "transformer": {"width": 16, "layers": 2, "heads": 2, "feedforward": 32, "max_positions": 6},
    "mlp": {"width": 16},
    "lstm": {"width": 16},
}

# 94 columns of sketch and bands; 4 of each of two register files and three caches; 45 of tile factors.
CACHES = range(94 + 2 * 4, 94 + 5 * 4)
DEVICE = [*CACHES, 160, 161, 163, 164, 197, 198]
"""Draft columns of the device by hand: past 159 columns come the parallel iterations (1), their balance
over the cores (2), the lanes (1) and how they fill registers (2). The limits precede the last column."""


def whole(seed=0, rows=6):
    """Candidates that differ in every column of task, draft and hardware vector."""
    draw = np.random.default_rng(seed).standard_normal
    return replace(
        table(rows, seed),
        task=draw((rows, TASK_DIM + DRAFT_DIM)).astype(np.float32),
        hardware=draw((rows, HARDWARE_DIM)).astype(np.float32),
        counts=20 + draw((rows, COUNT_DIM)).astype(np.float32),
    )


def blank_columns(without):
    """Columns of task and draft vector and of the hardware vector that the normaliser makes zero."""
    features = whole()
    scaled = Normaliser.fit(features, np.arange(6), without=without).table(features)
    vectors = scaled.task[:, : TASK_DIM + DRAFT_DIM]
    return [np.flatnonzero(~field.any(axis=0)).tolist() for field in (vectors, scaled.hardware)]


TASK = list(range(TASK_DIM))
DRAFT = list(range(TASK_DIM, TASK_DIM + DRAFT_DIM))
HARDWARE = list(range(HARDWARE_DIM))


@pytest.mark.parametrize(
    ("without", "task", "hardware"),
    [
        ([], [], []),
        (["stores"], [], []),
        (["task"], TASK, []),
        (["draft"], DRAFT, []),
        (["task", "draft"], TASK + DRAFT, []),
        (["hardware"], [TASK_DIM + column for column in DEVICE], HARDWARE),
        (["task", "hardware"], TASK + [TASK_DIM + column for column in DEVICE], HARDWARE),
    ],
)
def test_columns_that_are_left_out(without, task, hardware):
    assert blank_columns(without) == [task, hardware]


def test_device_columns_are_those_that_another_device_changes():
    traces = [
        matmul_trace(),
        matmul_trace(i=[1, 8, 1, 1], j=[16, 1, 1, 1], k=[1, 32], unroll=0),
        matmul_trace(i=[8, 1, 1, 1], j=[1, 4, 4, 1], k=[32, 1]),
    ]
    read = [read_sketch(trace, matmul()) for trace in traces]
    values = np.array([of_trace for _, of_trace in read])
    (sketch, _), structure = read[0], matmul()

    def vectors(**changes):
        return DraftFeaturizer(sketch, structure, replace(CPU, **changes))(values)

    before = vectors()
    others = [{"cores": 7}, {"vector_bits": 4096}, {"name": "other", "frequency_ghz": 9.0}]
    others += [{f"l{level}_bytes": size} for level in (1, 2, 3) for size in (1, 64, 256, 1024)]
    changed = np.any([vectors(**other) != before for other in others], axis=(0, 1))
    limits = [DRAFT_DIM - 3, DRAFT_DIM - 2]
    assert np.flatnonzero(changed).tolist() == [column for column in DEVICE if column not in limits]
    # The limits are read from the program's annotations, which MetaSchedule derives from the target.
    assert before[0, limits].tolist() == [sketch.max_parallel / 64, sketch.max_vector / 64] == [0.5, 1]
    assert list(DEVICE_COLUMNS) == DEVICE


def with_other(features, kind, other):
    """The features with those of one kind taken from other candidates."""
    if kind == "task":
        return replace(features, task=np.hstack([other.task[:, :TASK_DIM], features.task[:, TASK_DIM:]]))
    if kind == "draft":
        return replace(features, task=np.hstack([features.task[:, :TASK_DIM], other.task[:, TASK_DIM:]]))
    parts = {kind: getattr(other, kind)}
    if kind in ("stores", "decisions"):
        offsets = f"{kind[:-1]}_offsets"
        parts[offsets] = getattr(other, offsets)
    return replace(features, **parts)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MODELS)
def test_a_kind_of_feature_that_is_left_out_has_no_effect(name, kind):
    features = whole()
    changed = with_other(features, kind, whole(seed=5))  # other values and numbers of tokens
    rows = np.arange(6)

    def fitted(without):
        torch.manual_seed(0)
        normaliser = Normaliser.fit(features, rows, without=without)
        model = build_model(ModelConfig(name, MODELS[name]), normaliser.dims).eval()
        return Predictor(normaliser, model, TargetConfig())

    predictor, full = fitted([kind]), fitted([])
    expected = predictor.predict_table(features, rows)
    np.testing.assert_allclose(predictor.predict_table(changed, rows), expected, atol=1e-6)
    assert np.abs(full.predict_table(changed, rows) - full.predict_table(features, rows)).max() > 1e-5
    # All other kinds still have an effect, but for counts, which need task and hardware.
    for other in set(KINDS) - {kind} - ({"counts"} if kind in ("task", "hardware") else set()):
        moved = with_other(features, other, whole(seed=7))
        assert np.abs(predictor.predict_table(moved, rows) - expected).max() > 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_table_and_batch_leave_out_alike(kind):
    features = whole(rows=5)
    normaliser = Normaliser.fit(features, np.arange(5), without=[kind])
    of_table, of_batch = normaliser.table(features).batch(), normaliser.batch(features.batch())
    for f in fields(of_table):
        left, right = getattr(of_table, f.name), getattr(of_batch, f.name)
        if f.name in ("stores", "decisions"):  # padding may hold anything
            mask = getattr(of_table, f"{f.name[:-1]}_mask")
            left, right = left[mask], right[mask]
        np.testing.assert_array_equal(left, right, err_msg=f.name)


def test_features_without_draft_vectors_can_be_ablated_too():
    features = table(5)  # whose task field is the task vector alone
    for kind in KINDS:
        scaled = Normaliser.fit(features, np.arange(5), without=[kind]).table(features)
        assert scaled.task.any() == (kind != "task")


def test_counts_follow_the_draft_vector_for_models_that_read_them():
    features = whole()
    normaliser = Normaliser.fit(features, np.arange(6))
    assert normaliser.reads_counts and normaliser.dims.task == TASK_DIM + DRAFT_DIM + WORK_DIM
    scaled = normaliser.table(features)
    work = work_features(features.counts, features.task, features.hardware)
    np.testing.assert_array_equal(scaled.task[:, -WORK_DIM:], normaliser.counts(work))
    assert scaled.counts.shape == (6, 0)
    again = Normaliser.from_json(normaliser.to_json())
    np.testing.assert_array_equal(again.table(features).task, scaled.task)
    uncounted = replace(features, counts=features.counts[:, :0])
    with pytest.raises(ValueError, match="have no counts, which the model reads"):
        normaliser.table(uncounted)
    for without in (["counts"], ["hardware"], ["task"]):
        assert not Normaliser.fit(features, np.arange(6), without=without).reads_counts
    # Those of schema 6 read the first columns.
    first = normaliser.to_json()
    first["counts"] = {name: column[:EARLIER_WORK_DIM] for name, column in first["counts"].items()}
    some = Normaliser.from_json(first)
    assert some.dims.task == TASK_DIM + DRAFT_DIM + EARLIER_WORK_DIM
    np.testing.assert_array_equal(some.table(features).task, scaled.task[:, : EARLIER_WORK_DIM - WORK_DIM])
    first["counts"] = {name: column[:7] for name, column in first["counts"].items()}
    with pytest.raises(ValueError, match="7 columns of counts"):
        Normaliser.from_json(first)
    # Models from before there were counts read none.
    earlier = Normaliser.fit(uncounted, np.arange(6)).to_json()
    del earlier["counts"]
    older = Normaliser.from_json(earlier)
    assert older.dims.task == TASK_DIM + DRAFT_DIM
    np.testing.assert_array_equal(older.table(features).task, scaled.task[:, :-WORK_DIM])


def test_what_is_left_out_survives_json_and_has_to_be_known():
    normaliser = Normaliser.fit(table(5), np.arange(5), without=["hardware", "stores"])
    assert Normaliser.from_json(normaliser.to_json()).without == ("stores", "hardware")
    with pytest.raises(ValueError, match="choose among stores, decisions, task, hardware, draft"):
        replace(normaliser, without=("colour",))


@pytest.mark.parametrize(
    ("without", "task", "hardware"),
    [(["task"], TASK + DRAFT, []), (["hardware"], [], HARDWARE), (["stores"], [], [])],
)
def test_earlier_cards_keep_the_meaning_of_their_names(tmp_path, without, task, hardware):
    features = whole()
    normaliser = Normaliser.fit(features, np.arange(6))
    model = ModelConfig("mlp", {"width": 16})
    save_checkpoint(tmp_path / "old", build_model(model, normaliser.dims), make_card(normaliser, model))
    file = tmp_path / "old" / "card.json"
    values = json.loads(file.read_text())
    values["normaliser"]["without"] = without
    edit_card(tmp_path / "old", normaliser=values["normaliser"], schema_version=4)
    scaled = load_checkpoint(tmp_path / "old").predictor.normaliser.table(features)
    vectors = scaled.task[:, : TASK_DIM + DRAFT_DIM]
    found = [np.flatnonzero(~field.any(axis=0)).tolist() for field in (vectors, scaled.hardware)]
    assert found == [task, hardware]
    again = Normaliser.from_json(load_checkpoint(tmp_path / "old").predictor.normaliser.to_json())
    np.testing.assert_array_equal(again.table(features).task, scaled.task)
