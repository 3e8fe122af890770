"""The model of docs/extending.md, added as one module: it is trained, stored and loaded."""

import re
import sys

import numpy as np
import pytest
from foretune.models import architectures
from foretune.models.architectures.cost_model import FeatureNetwork
from foretune.models.architectures.registry import (
    EXPLORERS,
    MODELS,
    MemberConfig,
    ModelConfig,
    ModelConfigError,
    discover,
    feature_version_of,
    register,
)
from foretune.models.checkpoints.checkpoint import load_checkpoint
from foretune.training.train import train_model
from support.paths import ROOT
from support.synthetic import dataset
from support.training import settings


@pytest.fixture
def linear(monkeypatch, tmp_path):
    """The package `models.architectures` as if it held the module of the page, too."""
    section = (ROOT / "docs" / "extending.md").read_text().split("\n## A model\n")[1]
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "linear.py").write_text(re.search(r"```python\n(.*?)```", section, re.DOTALL)[1])
    monkeypatch.setattr(architectures, "__path__", [*architectures.__path__, str(tmp_path / "new")])
    discover(architectures.__name__, architectures.__path__)
    yield MODELS["linear"]
    del MODELS["linear"], architectures.linear, sys.modules[f"{architectures.__name__}.linear"]


def test_it_is_trained_stored_and_loaded(linear, tmp_path):
    data = dataset(tasks=8, per_task=6)
    model = ModelConfig("linear", members=2)
    result = train_model(settings(tmp_path, epochs=2, model=model), data, feature_version_of("linear"))
    assert result.epochs == 4
    loaded = load_checkpoint(result.checkpoint_dir, feature_version_of("linear"))
    assert {type(member) for member in loaded.predictor.model.members} == {linear}
    scores = loaded.predictor.predict_table(data.features, np.arange(len(data)))
    assert np.isfinite(scores).all() and np.ptp(scores) > 0


def test_without_its_module_it_is_unknown():
    with pytest.raises(ModelConfigError, match=r"model\.name='linear' is unknown: choose one of draft, lstm"):
        MemberConfig("linear")


@pytest.mark.parametrize("name", ["mlp", "dqn"])
def test_a_name_is_given_once(name):
    with pytest.raises(ValueError, match=rf"model '{name}' of .*Other: foretune.* has it; choose another"):

        @register(name)
        class Other(FeatureNetwork):
            pass

    assert not set(MODELS) & set(EXPLORERS)
