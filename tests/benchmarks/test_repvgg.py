"""RepVGG: its parameters against the papers, and how forms are run."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

from benchmarks import repvgg as subject
from benchmarks.common import read_json
from benchmarks.repvgg import parameters, repvgg


@pytest.mark.parametrize(
    ("size", "millions", "deeper_millions"),
    [("A0", 8.31, 13.35), ("A1", 12.79, 21.7), ("B0", 14.34, 24.85)],
)
def test_parameters_are_those_of_table_5(size, millions, deeper_millions):
    plain, deeper = (parameters(repvgg(size, deeper=count)) for count in (0, subject.ALL))
    assert plain / 1e6 == pytest.approx(millions, abs=0.006)
    # The table's additional parameters are nine times those of 1x1 convolutions: those of 3x3 ones.
    assert 9 * (deeper - plain) / 1e6 == pytest.approx(deeper_millions - millions, rel=0.01)


def test_a_1x1_convolution_follows_all_but_the_last():
    convolutions = [layer for layer in repvgg("A0", deeper=subject.ALL) if isinstance(layer, nn.Conv2d)]
    kernels = [layer.kernel_size[0] for layer in convolutions]
    assert kernels == [3, 1] * 21 + [3]
    assert all(one.in_channels == one.out_channels for one in convolutions if one.kernel_size == (1, 1))
    few = [layer.kernel_size[0] for layer in repvgg("A0", deeper=3) if isinstance(layer, nn.Conv2d)]
    assert few == [3, 1] * 3 + [3] * 19


def test_the_network_takes_images_and_its_activation():
    network = repvgg("A0", "softplus").eval()
    assert sum(isinstance(layer, nn.Softplus) for layer in network) == 22
    with torch.inference_mode():
        assert network(torch.zeros(1, 3, 32, 32)).shape == (1, 1000)


def test_a_study_that_was_stopped_goes_on(monkeypatch, tmp_path):
    forms = ["A0-relu", "A0-hardswish-deeper-3"]
    tuned, timed, stop = [], [], [True]

    def tune(checkout, network, seed, overrides, *, export, database, timed):
        assert network == subject.FACTORY
        if stop and tuned:
            stop.clear()
            raise KeyboardInterrupt
        tuned.append((overrides, database))
        export.write_text("library")
        return {"total_s": 10.0}

    def side_by_side(network, libraries):
        assert network == subject.SAME_INPUTS
        timed.append([path.exists() for path in libraries.values()])
        return {"A0-relu": 8e-3 + len(timed) * 1e-3, "A0-hardswish-deeper-3": 12e-3}

    monkeypatch.setattr(subject, "tune", tune)
    monkeypatch.setattr(subject, "side_by_side", side_by_side)
    monkeypatch.setattr(subject, "this_machine", lambda: {"name": "some cpu", "vector_bits": 256})
    words = ["repvgg", "--runs-in", str(tmp_path / "runs"), "--out", str(tmp_path / "out"), "--forms", *forms]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(KeyboardInterrupt):
        subject.main()
    subject.main()
    assert len(tuned) == 2  # the first form once
    assert "kwargs={size:A0,activation:hardswish,deeper:3}" in tuned[1][0]
    assert "search=high_efficiency" in tuned[1][0]
    assert tuned[0][1] == tuned[1][1] == tmp_path / "runs" / "database"
    assert timed == [[True, True]] * 3
    assert not list((tmp_path / "runs").glob("*.so"))
    (path,) = (tmp_path / "out").rglob("result.json")
    result = read_json(path)
    assert result["forms"]["A0-relu"]["latency_s"] == pytest.approx(10e-3)  # the median of 9, 10 and 11 ms
    assert result["forms"]["A0-relu"]["timings_s"] == pytest.approx([9e-3, 10e-3, 11e-3])
