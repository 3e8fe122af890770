"""Cost models: inputs that outputs depend on, padding, normalisation of features, and predictors."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from foretune.compiler.host.threads import linear_algebra_threads
from foretune.dataset.features.table import FeatureBatch, FeatureTable
from foretune.models.architectures.cost_model import FeatureTensors, NanError, Predictor, masked_mean
from foretune.models.architectures.registry import ModelConfig, ModelConfigError, build_model
from foretune.models.scaling.normaliser import LIMIT, WIDE, ColumnScaler, FeatureDims, Normaliser
from foretune.models.scaling.target import TargetConfig
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from support.peak_memory import peak_bytes
from support.synthetic import DECISION_DIM, HARDWARE_DIM, TASK_DIM, candidate, table

# The models of stores and decisions; the draft model reads neither, see test_draft_features.
SMALL = {
    "transformer": {"width": 16, "layers": 2, "heads": 2, "feedforward": 32, "max_positions": 6},
    "mlp": {"width": 16},
    "lstm": {"width": 16},
}
DIMS = FeatureDims(164, DECISION_DIM, TASK_DIM, HARDWARE_DIM)


def small_model(name):
    torch.manual_seed(0)
    return build_model(ModelConfig(name, SMALL[name]), DIMS).eval()


def outputs(model, batch):
    with torch.inference_mode():
        return model(FeatureTensors.of(batch)).numpy()


def swap_tokens(batch, name):
    """Batch with the first two tokens of one kind swapped."""
    tokens = getattr(batch, name).copy()
    tokens[:, [0, 1]] = tokens[:, [1, 0]]
    return replace(batch, **{name: tokens})


@pytest.fixture
def batch():
    """Six candidates of three stores and five decisions each."""
    rng = np.random.default_rng(3)
    return FeatureTable.from_candidates([candidate(rng) for _ in range(6)]).batch()


@pytest.mark.parametrize("name", SMALL)
def test_a_model_rates_each_candidate_once(name, batch):
    made = outputs(small_model(name), batch)
    assert made.shape == (6,) and made.dtype == np.float32
    assert len(np.unique(made)) == 6


@pytest.mark.parametrize("name", SMALL)
def test_what_padding_holds_and_how_long_it_is_does_not_matter(name):
    model, features = small_model(name), table(8)
    expected = outputs(model, features.batch())
    alone = np.concatenate([outputs(model, features.batch(np.array([i]))) for i in range(8)])
    np.testing.assert_allclose(alone, expected, atol=1e-5)

    padded = features.batch()
    padded.stores[~padded.store_mask] = 7.0
    padded.decisions[~padded.decision_mask] = -7.0
    np.testing.assert_allclose(outputs(model, padded), expected, atol=1e-5)


@pytest.mark.parametrize("name", SMALL)
def test_every_kind_of_feature_counts(name, batch):
    model = small_model(name)
    before = outputs(model, batch)
    for kind in ("stores", "decisions", "task", "hardware"):
        changed = replace(batch, **{kind: getattr(batch, kind) + 1})
        assert np.abs(outputs(model, changed) - before).max() > 1e-5, kind


@pytest.mark.parametrize("name", ["transformer", "lstm"])
@pytest.mark.parametrize("kind", ["stores", "decisions"])
def test_order_matters(name, kind, batch):
    model = small_model(name)
    assert np.abs(outputs(model, swap_tokens(batch, kind)) - outputs(model, batch)).max() > 1e-5


@pytest.mark.parametrize("kind", ["stores", "decisions"])
def test_the_mlp_baseline_ignores_order(kind, batch):
    model = small_model("mlp")
    np.testing.assert_allclose(outputs(model, swap_tokens(batch, kind)), outputs(model, batch), atol=1e-5)


def test_the_mlp_baseline_sums_the_encodings_of_tokens_and_encodes_no_padding():
    batch = FeatureTensors.of(table(8).batch())
    batch.store_mask[3] = False  # a program without stores
    model, encoded, summed = small_model("mlp"), [], []
    model.store_encoder.register_forward_hook(lambda _, inputs, output: encoded.append((*inputs, output)))
    model.head.register_forward_pre_hook(lambda _, inputs: summed.append(inputs[0]))
    model(batch)
    [(stores, of_store)] = encoded
    torch.testing.assert_close(stores, batch.stores[batch.store_mask])
    by_program = of_store.split(batch.store_mask.sum(dim=1).tolist())
    expected = torch.stack([part.sum(dim=0) for part in by_program])
    torch.testing.assert_close(summed[0][:, : expected.shape[1]], expected)


def test_neighbours_matter_to_a_token_of_the_transformer(batch):
    """The encoding of a store depends on the other stores and on the decisions, by attention."""
    model = small_model("transformer")
    seen = []
    model.encoder.register_forward_hook(lambda _, __, encoded: seen.append(encoded))
    outputs(model, batch)
    other_store = batch.stores.copy()
    other_store[:, 1] += 1
    outputs(model, replace(batch, stores=other_store))
    outputs(model, replace(batch, decisions=batch.decisions + 1))
    first_store = [encoded[:, 2] for encoded in seen]  # tokens: task, hardware, stores, decisions
    assert seen[0].shape == (6, 2 + 3 + 5, 16)
    for changed in first_store[1:]:
        assert (changed - first_store[0]).abs().amax(dim=-1).min() > 1e-4


def test_places_beyond_the_last_share_it():
    model = small_model("transformer")
    rng = np.random.default_rng(0)
    long = FeatureTable.from_candidates([candidate(rng, n_stores=9)]).batch()
    swapped = replace(long, stores=long.stores[:, [0, 1, 2, 3, 4, 5, 7, 6, 8]])
    np.testing.assert_allclose(outputs(model, swapped), outputs(model, long), atol=1e-5)


def test_torchs_inference_kernels_agree_with_the_trained_path(batch):
    model = small_model("transformer")
    with_gradients = model(FeatureTensors.of(batch)).detach().numpy()
    np.testing.assert_allclose(outputs(model, batch), with_gradients, atol=1e-5)


def test_a_masked_mean_by_hand():
    tokens = torch.tensor([[[1.0], [3.0], [9.0]], [[5.0], [5.0], [5.0]]])
    mask = torch.tensor([[True, True, False], [False, False, False]])
    assert masked_mean(tokens, mask).tolist() == [[2.0], [0.0]]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("resnet", {}, "model.name='resnet' is unknown: choose one of draft, lstm, mlp, transformer"),
        ("mlp", {"heads": 2}, "'mlp' has no argument heads; it takes width, dropout"),
        ("transformer", {"dims": 3}, "no argument dims"),
    ],
)
def test_unknown_models_and_arguments_are_refused(name, arguments, message):
    with pytest.raises(ModelConfigError, match=message):
        ModelConfig(name, arguments)


@pytest.mark.parametrize("arguments", [{"width": 10, "heads": 4}, {"width": -1}, {"width": "wide"}])
def test_arguments_that_no_model_can_have_are_refused(arguments):
    with pytest.raises(ModelConfigError, match="model 'transformer'"):
        build_model(ModelConfig("transformer", arguments), DIMS)


# --- predictor


@pytest.fixture
def predictor():
    return Predictor(Normaliser.fit(table(40), np.arange(40)), small_model("mlp"), TargetConfig(), chunk=4)


def test_chunks_give_the_same_scores_as_one_batch(predictor):
    features = table(11)
    chunked = predictor.predict(features.batch())
    whole = replace(predictor, chunk=100).predict(features.batch())
    assert chunked.dtype == np.float32 and chunked.shape == (11,)
    np.testing.assert_allclose(chunked, whole, atol=1e-6)
    rows = np.array([7, 2, 9, 3, 1])
    np.testing.assert_allclose(predictor.predict_table(features, rows), whole[rows], atol=1e-6)
    assert predictor.predict_table(features, rows[:0]).shape == (0,)


def test_predicting_leaves_torch_and_the_features_alone(predictor):
    batch = table(3).batch()
    before = {f.name: getattr(batch, f.name).copy() for f in fields(batch)}
    with linear_algebra_threads(2):
        predictor.predict(batch)
        assert torch.get_num_threads() == 2 and torch.is_grad_enabled()
    for name, array in before.items():
        np.testing.assert_array_equal(getattr(batch, name), array)


def test_features_of_other_dimensions_or_with_nan_are_refused(predictor):
    batch = table(3).batch()
    with pytest.raises(ValueError, match="5 columns, but the normaliser was fitted to 52"):
        predictor.predict(replace(batch, task=batch.task[:, :5]))
    batch.task[2, 0] = np.nan
    with pytest.raises(NanError, match="features of candidate 2 contain NaN"):
        predictor.predict(batch)


def test_a_model_whose_weights_are_nan_is_named_as_the_cause(predictor):
    with torch.no_grad():
        next(predictor.model.parameters()).fill_(np.nan)
    with pytest.raises(NanError, match=r"NaN for the finite features of candidate 0, as it diverged"):
        predictor.predict(table(3).batch())


# --- normaliser


def test_columns_are_standardised_by_hand():
    # column 0: mean 2, deviation 1; column 1 is constant; column 2 is wide: 0 and ln(1 + 99)
    rows = np.array([[1, 5, 0], [3, 5, 99]], dtype=np.float32)
    scaler = ColumnScaler.fit(rows)
    np.testing.assert_allclose(scaler(rows), [[-1, 0, -1], [1, 0, 1]], atol=1e-6)
    # 8 is 6 deviations above; a constant column stays 0 for any later value; 9 -> ln 10 is the mean
    np.testing.assert_allclose(scaler(np.array([[8, 1e9, 9]], np.float32)), [[6, 0, 0]], atol=1e-5)
    np.testing.assert_allclose(scaler(np.array([[1e4, 0, 0]], np.float32))[0, 0], LIMIT)


def test_many_columns_are_fitted_in_less_memory_than_they_take():
    rows = np.random.default_rng(0).normal(3, 2, (2000, 250)).astype(np.float32)
    assert peak_bytes(lambda: ColumnScaler.fit(rows)) < 1.5 * rows.nbytes
    scaler = ColumnScaler.fit(rows)
    np.testing.assert_allclose(scaler.mean, rows.mean(axis=0, dtype=np.float64), rtol=1e-6)
    np.testing.assert_allclose(scaler.inverse_deviation, 1 / rows.std(axis=0, dtype=np.float64), rtol=1e-6)


@given(arrays(np.float32, (6, 3), elements=st.floats(-1e6, 1e6, width=32)))
def test_scaled_values_are_bounded_finite_and_survive_json(rows):
    scaler = ColumnScaler.fit(rows)
    scaled = scaler(rows)
    assert np.isfinite(scaled).all() and np.abs(scaled).max() <= LIMIT
    assert (scaler.compress == (np.abs(rows).max(axis=0) > WIDE)).all()
    np.testing.assert_array_equal(ColumnScaler.from_json(scaler.to_json())(rows), scaled)


def test_only_the_chosen_rows_are_fitted():
    features = table(20)
    chosen = np.array([1, 4, 5, 13])
    of_chosen = Normaliser.fit(features, chosen)
    features.task[0] += 100  # a row that was not chosen
    features.stores[: features.store_offsets[1]] += 100
    again = Normaliser.fit(features, chosen)
    np.testing.assert_array_equal(again.task.mean, of_chosen.task.mean)
    np.testing.assert_array_equal(again.stores.mean, of_chosen.stores.mean)
    np.testing.assert_allclose(of_chosen.task.mean, features.task[chosen].mean(axis=0), atol=1e-6)
    assert of_chosen.dims == DIMS == FeatureDims.of(features)


def test_table_and_batch_are_scaled_alike():
    features = table(5)
    normaliser = Normaliser.fit(features, np.arange(5))
    of_table, of_batch = normaliser.table(features).batch(), normaliser.batch(features.batch())
    mask = of_batch.store_mask
    np.testing.assert_array_equal(of_table.stores[mask], of_batch.stores[mask])
    for name in ("task", "hardware", "store_mask", "decision_mask"):
        np.testing.assert_array_equal(getattr(of_table, name), getattr(of_batch, name))


def test_features_that_are_not_finite_are_named():
    features = table(5)
    features.decisions[3, 2] = np.inf
    with pytest.raises(ValueError, match="decisions features: column 2 contains NaN or infinity"):
        Normaliser.fit(features, np.arange(5))


def test_candidates_without_decisions_can_be_normalised_and_rated():
    rng = np.random.default_rng(0)
    features = FeatureTable.from_candidates([candidate(rng, n_decisions=0) for _ in range(3)])
    normaliser = Normaliser.fit(features, np.arange(3))
    for name in SMALL:
        assert np.isfinite(
            Predictor(normaliser, small_model(name), TargetConfig()).predict(features.batch())
        ).all()


def test_feature_tensors_share_the_names_of_the_batch():
    """Counts are normalised into the task field."""
    assert (*FeatureTensors._fields, "counts") == tuple(f.name for f in fields(FeatureBatch))
