"""Agreement of a network in bfloat16 or int8 with float32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from foretune.compiler.networks import load_network
from foretune.compiler.networks.importing.onnx_import import runtime_outputs
from foretune.compiler.networks.low_precision.quantisation import quantised
from foretune.inference.deploy.agreement import measure_agreement, top_1
from foretune.inference.deploy.outputs import compare_narrow_outputs


def test_top_1_is_the_share_of_rows_with_the_same_largest_element() -> None:
    reference = np.array([[1.0, 2.0], [3.0, 0.0]])
    assert top_1([reference], [np.array([[0.0, 9.0], [0.0, 1.0]])]) == 0.5
    image = np.zeros((1, 3, 2, 2))
    image[0, 1] = 1  # channels are the rows of an image
    assert top_1([image], [image * 2]) == 1.0
    assert top_1([image], [-image]) == 0.0


def test_a_network_agrees_with_itself_and_pytorch_in_bfloat16_nearly() -> None:
    network = load_network("support.networks:Residual", inputs=[[1, 8, 6, 6]])

    def run(*inputs: np.ndarray) -> list[np.ndarray]:
        with torch.inference_mode():
            assert network.module is not None
            outputs = network.module(*map(torch.from_numpy, inputs))
        return [tensor.numpy() for tensor in outputs.values()]

    found = measure_agreement(network, "bfloat16", run, inputs=2)
    assert (found.dtype, found.inputs, found.top_1) == ("bfloat16", 2, 1.0)
    assert found.rival_top_1 is not None and 0.5 < found.rival_top_1 <= 1
    assert found.rival_difference is not None and found.rival_difference > 0


def test_the_rival_in_int8_is_onnx_runtime_with_the_same_file(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    loaded = load_network("support.networks:Residual", inputs=[[1, 8, 6, 6]])
    network = quantised(loaded, None, tmp_path / "quantised.onnx")

    def run(*inputs: np.ndarray) -> list[np.ndarray]:
        assert network.quantised_path is not None
        return runtime_outputs(network.quantised_path, inputs) or []

    found = measure_agreement(network, "int8", run, inputs=2)
    assert (found.dtype, found.rival) == ("int8", "ONNX Runtime")
    assert found.top_1 == found.rival_top_1 and found.top_1 > 0.8
    assert found.rival_difference is not None and found.rival_difference > 0


@pytest.mark.parametrize(
    ("difference", "rival", "agrees"),
    [(0.1, [0.06], True), (0.1, [0.04], False), (0.06, [0.0], True), (0.9, None, True), (1.1, None, False)],
)
def test_the_tolerance_in_int8_is_twice_the_rivals_difference(
    difference: float, rival: list[float] | None, agrees: bool
) -> None:
    reference = [np.array([4.0, 1.0])]  # 2^-6 of the largest is 0.0625, 2^-2 is 1
    check = compare_narrow_outputs(reference, [np.array([4.0, 1.0 + difference])], rival, "int8")
    assert check.agrees == agrees


@pytest.mark.parametrize(
    ("difference", "pytorch", "agrees"),
    [
        (0.1, [0.06], True),
        (0.1, [0.04], False),
        (0.015, [0.0], True),
        (0.12, None, True),
        (0.13, None, False),
    ],
)
def test_the_tolerance_is_twice_pytorchs_difference(
    difference: float, pytorch: list[float] | None, agrees: bool
) -> None:
    reference = [np.array([4.0, 1.0])]  # 2^-8 of the largest is 0.0156, 2^-5 is 0.125
    check = compare_narrow_outputs(reference, [np.array([4.0, 1.0 + difference])], pytorch)
    assert check.agrees == agrees
