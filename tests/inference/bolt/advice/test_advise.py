"""`foretune advise` on small networks: predicted, measured, stopped, and bad input."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from foretune.configuration import from_hydra
from foretune.dataset.measure import MeasureConfig
from foretune.inference.advise import AdviseConfig, AdviseConfigError, NothingToAdviseError, run
from foretune.inference.bolt.advice import run as run_module
from foretune.inference.bolt.advice.activations import UnknownActivationError
from foretune.inference.bolt.advice.content import Advice
from foretune.inference.bolt.advice.cost_file import KEPT_FILE
from foretune.inference.bolt.advice.latencies import SEARCHED, TEMPLATE, UNTUNED
from foretune.inference.bolt.advice.predicted import NoLatencyModelError
from foretune.inference.search.config import OneShotConfig
from foretune.models.scaling.target import TargetError
from hydra import compose, initialize_config_module
from rich.console import Console

NETWORK: dict[str, Any] = {"network": "support.advice:Small", "inputs": [[1, 3, 12, 12]]}


def advised(folder: Path, **changes: Any) -> tuple[Advice, str]:
    """The advice, and what was printed."""
    console = Console(width=140, file=io.StringIO())
    settings = {**NETWORK, "output": folder / "out", "database": folder / "tuned", **changes}
    advice = run(AdviseConfig(**settings), console)
    return advice, console.file.getvalue()  # type: ignore[attr-defined]


def check_small(advice: Advice) -> None:
    """The layers of the network are all there, and the sums hold."""
    assert (advice.layers, advice.network) == (3, "Small")
    assert sorted(costs.activation for costs in advice.layer_costs) == ["hardswish", "relu"]
    own = {one.name: one.calls for one in advice.activations if one.calls}
    assert own == {"hardswish": 1, "relu": 1}
    for one in advice.activations:
        extra = [costs.extra_s[one.name] for costs in advice.layer_costs if one.name in costs.extra_s]
        assert one.extra_s == pytest.approx(sum(extra))
        assert one.share == pytest.approx(one.extra_s / advice.network_s)
    # The first convolution has 16 channels out and those of an image in; the classifier 24 in and 10 out.
    widths = {(one.layer.split()[0], one.direction): one.widths for one in advice.aligned}
    assert widths[("conv2d", "up")] == {"out_channels": (24, 32)}
    assert widths[("dense", "up")] == {"in_features": (24, 32), "out_features": (10, 16)}
    assert widths.keys() == {("conv2d", "up"), ("conv2d", "down"), ("dense", "up")}
    assert sorted(one.channels for one in advice.deeper) == [16, 24]


def test_predictions_need_no_measurement_and_no_database(tmp_path: Path) -> None:
    settings = {"predict": True, "drawn": 4, "programs": 2, "align": 16, "activations": ["relu", "silu"]}
    advice, text = advised(tmp_path, **settings)
    check_small(advice)
    assert not advice.measured and advice.checkpoint == "cpu-latency"
    assert "Activations: Small on" in text and "predicted by cpu-latency" in text
    assert json.loads((tmp_path / "out" / "advice.json").read_text())["layers"] == 3
    assert not (tmp_path / "tuned").exists()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["advice.html", "advice.json"]


@pytest.mark.slow
def test_measurements_are_kept_and_go_on(tmp_path: Path, monkeypatch: Any) -> None:
    search = OneShotConfig(
        "evolutionary", rounds=1, top_k=2, propose=False, surrogate=False, finalists=0, processes=0
    )
    settings = {
        **{"align": 16, "search": search, "activations": ["relu", "gelu"], "programs": 2},
        **{"checkpoint": None, "workers": 1, "measure": MeasureConfig(groups=1, budget_s=0.05)},
    }
    measured = run_module.activation_costs
    calls = []

    def stopped(layer: Any, *rest: Any) -> Any:
        calls.append(layer)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return measured(layer, *rest)

    monkeypatch.setattr(run_module, "activation_costs", stopped)
    with pytest.raises(KeyboardInterrupt):
        advised(tmp_path, **settings)
    kept = (tmp_path / "out" / KEPT_FILE).read_text()
    assert kept.count("\n") == 1
    (records,) = (tmp_path / "out" / "database").rglob("database_tuning_record.json")
    searched = records.read_text()
    advice, _ = advised(tmp_path, **settings)
    check_small(advice)
    assert len(calls) == 3  # the first layer once, the other one twice
    assert (tmp_path / "out" / KEPT_FILE).read_text().startswith(kept)
    assert advice.measured and advice.unknown == []
    assert set(advice.sources) <= {SEARCHED, TEMPLATE, UNTUNED}
    assert records.read_text() == searched  # no layer is searched again


def test_the_defaults_are_those_of_the_code() -> None:
    with initialize_config_module("foretune.conf", version_base="1.3"):
        composed = from_hydra(compose("advise"), AdviseConfig)
    assert composed == AdviseConfig("resnet18", None, composed.database)
    assert composed.folder == Path("outputs/advise/resnet18")
    assert replace(composed, network="../nets/small.onnx").folder == Path("outputs/advise/small")


def test_a_network_without_layers(tmp_path: Path) -> None:
    with pytest.raises(NothingToAdviseError, match="NoLayers: it has 1 task, and none"):
        advised(tmp_path, network="support.advice:NoLayers", predict=True)


def test_a_target_without_a_model_of_latencies(tmp_path: Path) -> None:
    with pytest.raises(NoLatencyModelError, match="no cost model predicts latencies for vulkan"):
        advised(tmp_path, target="vulkan", predict=True)
    with pytest.raises(NoLatencyModelError, match="checkpoint=None"):
        advised(tmp_path, checkpoint=None, predict=True)
    with pytest.raises(TargetError, match="gives no seconds"):
        advised(tmp_path, checkpoint="cpu", predict=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"programs": 0}, "programs=0: must be at least 1"),
        ({"align": 0}, "align=0"),
        ({"workers": 0}, "workers=0: must be at least 1"),
        ({"seed": -1}, "seed=-1: must be at least 0"),
        ({"nearly_free": 1.5}, "nearly_free=1.5"),
        ({"search": OneShotConfig(rounds=1, measure=False)}, "search.measure=false"),
    ],
)
def test_settings_out_of_range(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(AdviseConfigError, match=message):
        advised(tmp_path, **changes)


def test_unknown_activations(tmp_path: Path) -> None:
    with pytest.raises(UnknownActivationError, match="activations=swish"):
        advised(tmp_path, activations=["swish"])
