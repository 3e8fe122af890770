"""The layers and forms of networks that are measured with Winograd's algorithm."""

from __future__ import annotations

from benchmarks import winograd as measured


def test_each_layer_is_measured_once() -> None:
    assert set(measured.FORMS) == {"auto", "off"}
    assert len(set(measured.LAYERS)) == len(measured.LAYERS) == 12
