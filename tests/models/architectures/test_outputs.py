"""Models with several outputs, a variance, and ensembles: their columns and a predictor's names for them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from foretune.dataset.features.roofline import latency_bound_s
from foretune.models.architectures.cost_model import CostModel, FeatureTensors, Predictor
from foretune.models.architectures.ensemble import EnsembleCostModel, members_of
from foretune.models.architectures.registry import MODELS, ModelConfig, ModelConfigError, build_model
from foretune.models.scaling.columns import column_names, decode_share, encode_share
from foretune.models.scaling.normaliser import FeatureDims, Normaliser
from foretune.models.scaling.target import TargetConfig, TargetError
from support.synthetic import DECISION_DIM, HARDWARE_DIM, TASK_DIM, dataset, table

DIMS = FeatureDims(164, DECISION_DIM, TASK_DIM, HARDWARE_DIM)
ALL = {"outputs": ["score", "memory", "core"], "variance": True}
SMALL = {"transformer": {"width": 16, "layers": 1, "heads": 2, "feedforward": 16}}


def built(name="mlp", members=1, **arguments):
    torch.manual_seed(0)
    config = ModelConfig(name, {**SMALL.get(name, {"width": 16}), **arguments}, members)
    return build_model(config, DIMS).eval()


class Fixed(CostModel):
    """Model with the same output for every candidate."""

    def __init__(self, columns, values):
        super().__init__()
        self.columns = columns
        self.values = torch.nn.Parameter(torch.tensor(values))

    def forward(self, features):
        return self.all_columns(features)[:, 0]

    def all_columns(self, features):
        return self.values.expand(len(features.task), -1)

    def rescale(self, slope, offset):
        raise NotImplementedError


def predictor_of(model, target=None):
    return Predictor(Normaliser.fit(table(9), np.arange(9)), model, target or TargetConfig(), chunk=2)


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("name", ["transformer", "mlp", "lstm", "draft"])
def test_a_rescaled_model_has_another_primary_output_and_deviation(name, members):
    features = table(5)
    model = built(name, members, **({} if name == "draft" else ALL))
    predictor = predictor_of(model)
    before = predictor.predict_all_table(features, np.arange(5))
    model.rescale(0.5, 0.25)
    after = predictor.predict_all_table(features, np.arange(5))
    np.testing.assert_allclose(after.output, 0.25 + 0.5 * before.output, atol=1e-6)
    if before.std is not None:
        np.testing.assert_allclose(after.std, 0.5 * before.std, rtol=1e-4)
    if before.memory is not None:
        np.testing.assert_array_equal(after.memory, before.memory)
        np.testing.assert_array_equal(after.core, before.core)


@pytest.mark.parametrize("name", ["transformer", "mlp", "lstm"])
def test_every_model_has_the_outputs_that_are_asked_for(name):
    features = FeatureTensors.of(table(5).batch())
    model = built(name, **ALL)
    assert model.columns == ("score", "memory", "core", "log_variance")
    columns = model.all_columns(features)
    assert columns.shape == (5, 4)
    torch.testing.assert_close(model(features), columns[:, 0])
    plain = built(name)
    assert plain.columns == ("score",) and plain.all_columns(features).shape == (5, 1)


@pytest.mark.parametrize(
    "outputs", [[], ["memory"], ["core", "score"], ["score", "score"], ["score", "power"]]
)
def test_outputs_start_with_the_score_and_are_known(outputs):
    with pytest.raises(ValueError, match="start with 'score', and add 'memory' or 'core' or both"):
        column_names(outputs, variance=False)
    with pytest.raises(ModelConfigError, match="start with 'score'"):
        build_model(ModelConfig("mlp", {"outputs": outputs}), DIMS)


def test_shares_by_hand():
    share = np.array([1, 0.1, 0.01, 0.001, 0])
    np.testing.assert_allclose(encode_share(share), [1, 2 / 3, 1 / 3, 0, 0], atol=1e-6)
    made = decode_share(np.array([1.2, 1, 2 / 3, 0], np.float32))
    np.testing.assert_allclose(made, [1, 1, 0.1, 0.001], rtol=1e-4)


def test_a_prediction_names_the_columns():
    # deviation 0.2 times 1.5 with a floor of 0.4: sqrt(0.09 + 0.16); shares 1 and 0.001
    model = Fixed(("score", "core", "memory", "log_variance"), [0.5, 1.0, 0.0, float(np.log(0.04))])
    predictor = replace(
        predictor_of(model, TargetConfig("log_score", max_slowdown=100)), std_scale=1.5, std_floor=0.4
    )
    made = predictor.predict_all(table(3).batch())
    np.testing.assert_allclose(made.output, 0.5)
    np.testing.assert_allclose(made.score, 0.1, rtol=1e-5)
    np.testing.assert_allclose(made.std, 0.5, rtol=1e-5)
    np.testing.assert_allclose(made.core, 1)
    np.testing.assert_allclose(made.memory, 0.001, rtol=1e-5)
    assert made.std.dtype == np.float32 and made.memory.shape == (3,)
    np.testing.assert_array_equal(predictor.predict(table(3).batch()), made.score)
    rows = np.array([2, 0])
    np.testing.assert_array_equal(predictor.predict_all_table(table(3), rows).std, made.std[rows])
    plain = predictor_of(built()).predict_all(table(3).batch())
    assert plain.std is plain.memory is plain.core is None


def test_seconds_come_from_the_raw_features():
    features = dataset(tasks=3, per_task=2).features
    target = TargetConfig("efficiency", min_efficiency=1e-4)
    predictor = predictor_of(Fixed(("score",), [0.75]), target)  # efficiency 0.1
    expected = 10 * latency_bound_s(features)
    seconds = predictor.predict_latency_s(features.batch())
    np.testing.assert_allclose(seconds, expected, rtol=1e-5)
    assert seconds.dtype == np.float64
    with pytest.raises(TargetError, match=r"target\.name=score"):
        predictor_of(built()).predict_latency_s(features.batch())


def test_an_ensemble_is_a_mixture_by_hand():
    columns = ("score", "core", "log_variance")
    members = [
        Fixed(columns, [0.2, 0.5, float(np.log(0.01))]),
        Fixed(columns, [0.6, 0.7, float(np.log(0.03))]),
    ]
    ensemble = EnsembleCostModel(members)
    made = ensemble.all_columns(FeatureTensors.of(table(2).batch()))
    # means 0.4 and 0.6; variance mean(0.01, 0.03) + 0.2^2
    np.testing.assert_allclose(made.detach(), [[0.4, 0.6, np.log(0.06)]] * 2, rtol=1e-5)
    without = EnsembleCostModel([Fixed(("score",), [0.2]), Fixed(("score",), [0.6])])
    assert without.columns == ("score", "log_variance")
    made = without.all_columns(FeatureTensors.of(table(2).batch()))
    np.testing.assert_allclose(made.detach(), [[0.4, np.log(0.04)]] * 2, rtol=1e-5)
    agreeing = EnsembleCostModel([members[0], members[0]])
    assert torch.isfinite(agreeing.all_columns(FeatureTensors.of(table(2).batch()))).all()


def test_an_ensemble_has_the_columns_of_all_members():
    both = EnsembleCostModel(
        [Fixed(("score", "core"), [0.1, 0.2]), Fixed(("score", "log_variance"), [0.3, 0])]
    )
    assert both.columns == ("score", "log_variance")
    made = both.all_columns(FeatureTensors.of(table(2).batch()))
    # a member without a variance of its own has none: (0 + e^0) / 2 and 0.1^2
    np.testing.assert_allclose(made.detach(), [[0.2, np.log(0.51)]] * 2, rtol=1e-5)
    with pytest.raises(ValueError, match="members is empty"):
        EnsembleCostModel([])


@pytest.mark.parametrize("name", sorted(MODELS.keys() - {"trees"}))  # which differ once they are fitted
def test_an_ensemble_by_configuration_has_members_that_differ(name):
    config = ModelConfig(name, SMALL.get(name, {}), members=2)
    model = build_model(config, DIMS).eval()
    first, second = members_of(model)
    assert members_of(first) == [first]
    features = FeatureTensors.of(table(3).batch())
    with torch.inference_mode():
        assert (first(features) - second(features)).abs().max() > 1e-4
        torch.testing.assert_close(model(features), (first(features) + second(features)) / 2)
    with pytest.raises(ModelConfigError, match=r"model\.members=0"):
        ModelConfig(members=0)


def test_unsure_variances_are_bounded():
    model = built(variance=True)
    torch.nn.init.constant_(model.head[-1].bias, 1e6)
    assert model.all_columns(FeatureTensors.of(table(2).batch()))[:, 1].tolist() == [4.0, 4.0]
