"""Winograd's algorithm as an alternative: which layers it is offered for, and that it computes the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from foretune.compiler.networks import Lowering, find_alternatives, load_network, to_relax
from foretune.compiler.networks.alternatives import winograd as kind
from foretune.compiler.networks.alternatives.alternatives import Alternative, call_counts, with_alternatives
from foretune.compiler.networks.alternatives.winograd import gain
from foretune.compiler.networks.alternatives.winograd_function import tile_counts
from foretune.compiler.networks.loading import Network
from foretune.compiler.networks.lowering.lowering import LoweringError
from foretune.compiler.operators.convolutions.conv2d import Conv2d
from foretune.compiler.operators.convolutions.winograd import F2, F4
from foretune.compiler.operators.convolutions.winograd_rounding import LARGEST_ROUNDING, rounding
from foretune.compiler.targets import MissingInstructionError
from foretune.compiler.tvm_compat import parse_target
from foretune.compiler.types import WIDE
from foretune.dataset.generation.config import GenerateConfig, GenerateConfigError
from foretune.inference.deploy.compile import compile_network
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.cpu

SERVER = parse_target({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 2})
AVX2 = parse_target({"kind": "llvm", "mcpu": "haswell", "num-cores": 2})
AUTO = Lowering(winograd="auto")


def network_of(size: tuple[int, int] = (12, 12), batch: int = 1, **arguments: Any) -> Network:
    arguments = {"in_channels": 32, "out_channels": 32, "kernel_size": 3, "padding": 1, **arguments}
    return load_network(
        "support.networks:OneConvolution", inputs=[[batch, arguments["in_channels"], *size]], kwargs=arguments
    )


def found_in(
    network: Network, lowering: Lowering = AUTO, target: tvm.target.Target = SERVER
) -> tuple[tvm.IRModule, list[Alternative]]:
    mod = to_relax(network, target, lowering)
    return mod, find_alternatives(mod, target, lowering)


def conv(size: int, in_channels: int, out_channels: int) -> Conv2d:
    return Conv2d(
        batch=1,
        in_channels=in_channels,
        height=size,
        width=size,
        out_channels=out_channels,
        kernel=(3, 3),
        padding=(1, 1),
        layout="NHWC",
    )


def test_the_expected_gain_by_hand() -> None:
    # 8x8 outputs and 32 channels each: 9 * 1024 * (64 + 8) in place of, with 2x2 tiles of 36 elements,
    # 36 * (4 * 1024 + 8 * 4 * 64 + 8 * 1024).
    assert gain(conv(8, 32, 32), F4) == pytest.approx(9 * 1024 * 72 / (36 * (4096 + 2048 + 8192)))
    # With 4x4 tiles of 16 elements: 16 * (16 * 1024 + 8 * 16 * 64 + 8 * 1024).
    assert gain(conv(8, 32, 32), F2) == pytest.approx(9 * 1024 * 72 / (16 * (16384 + 8192 + 8192)))


def test_large_images_gain_by_large_tiles_and_stems_nothing() -> None:
    large = conv(56, 64, 64)
    assert gain(large, F4) > gain(large, F2) > 1.2
    assert gain(conv(7, 512, 512), F2) > gain(conv(7, 512, 512), F4)  # two rows of tiles cover 8 of 7 rows
    assert max(gain(conv(224, 3, 64), transforms) for transforms in (F2, F4)) < 1.2


def test_columns_of_tiles_end_in_whole_parts() -> None:
    assert tile_counts(conv(56, 16, 16), F4) == (14, 14)
    assert tile_counts(conv(7, 16, 16), F4) == (2, 2)
    assert tile_counts(conv(112, 16, 16), F4) == (28, 28)  # two parts of 14
    assert tile_counts(conv(38, 16, 16), F2) == (19, 20)  # two parts of 10


def test_rounding_errors_grow_with_the_tile_and_stay_small() -> None:
    weight = np.random.default_rng(0).standard_normal((3, 3, 64, 64)).astype(np.float32)
    small, large = rounding(weight, F2), rounding(weight, F4)
    assert 0 < small < large < LARGEST_ROUNDING[WIDE]
    assert rounding(1e-6 * weight, F4) == pytest.approx(large, rel=0.5)  # it is relative
    assert rounding(np.zeros_like(weight), F4) == 0.0


def test_a_layer_that_rounds_too_much_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    network = network_of()
    _, both = found_in(network)
    assert [one.kind for one in both] == ["Winograd F(2x2, 3x3)", "Winograd F(4x4, 3x3)"]
    monkeypatch.setitem(LARGEST_ROUNDING, WIDE, 6e-7)
    _, left = found_in(network)
    assert [one.kind for one in left] == ["Winograd F(2x2, 3x3)"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"stride": 2},
        {"dilation": 2},
        {"kernel_size": 5},
        {"groups": 2},
        {"in_channels": 24},
        {"out_channels": 8},
        {"kernel_size": (3, 1)},
    ],
    ids=str,
)
def test_other_convolutions_are_not_offered(arguments: dict[str, Any]) -> None:
    assert found_in(network_of(**arguments))[1] == []


def test_the_lowering_says_which_tiles() -> None:
    network = network_of()
    assert found_in(network, Lowering(winograd="off"))[1] == []
    assert [one.kind for one in found_in(network, Lowering(winograd=[4]))[1]] == ["Winograd F(4x4, 3x3)"]
    # Eight lanes divide 24 channels, sixteen do not.
    narrow = network_of(in_channels=24, out_channels=24)
    assert found_in(narrow, target=AVX2)[1] and not found_in(narrow)[1]


@pytest.mark.parametrize("target", [{"kind": "llvm"}, "nvidia/nvidia-a100"], ids=["plain", "cuda"])
def test_a_target_without_vector_instructions_is_refused(target: Any) -> None:
    with pytest.raises(MissingInstructionError, match="no multiply-add instruction for float32"):
        to_relax(network_of(), parse_target(target), Lowering(winograd=[2]))
    mod = to_relax(network_of(), parse_target(target), AUTO)
    assert find_alternatives(mod, parse_target(target), AUTO) == []


@pytest.mark.parametrize("winograd", ["fast", [3], [], [4, 6], "24", 4, None])
def test_unknown_tiles_are_refused(winograd: Any) -> None:
    with pytest.raises(LoweringError, match=r"lowering\.winograd=.*use off, auto, or a list .* among 2, 4"):
        Lowering(winograd=winograd)


@pytest.mark.parametrize(
    ("tile", "dtype", "advice"), [(4, "bfloat16", r"use lowering\.winograd=\[2\]"), (2, "int8", "leave one")]
)
def test_types_of_too_few_digits_are_refused(tile: int, dtype: str, advice: str) -> None:
    match = rf"lowering\.winograd=\[{tile}\] lowering\.dtype={dtype}: .*; {advice}"
    with pytest.raises(LoweringError, match=match):
        Lowering(winograd=[tile], dtype=dtype)


def test_bfloat16_has_small_tiles_where_no_tile_registers_are_faster() -> None:
    lowering = Lowering(dtype="bfloat16")
    for cpu, kinds in (("znver4", ["Winograd F(2x2, 3x3)"]), ("sapphirerapids", [])):
        target = parse_target({"kind": "llvm", "mcpu": cpu, "num-cores": 2})
        network = network_of((28, 28), in_channels=64, out_channels=64)
        assert [one.kind for one in found_in(network, lowering, target)[1]] == kinds


def test_rounding_to_bfloat16_leaves_no_large_tiles() -> None:
    """Storing an output in bfloat16 rounds by 2^-9 of it at most."""
    weight = np.random.default_rng(0).standard_normal((3, 3, 64, 64)).astype(np.float32)
    small, large = (rounding(weight, transforms, "bfloat16") for transforms in (F2, F4))
    assert 2.0**-9 < small < LARGEST_ROUNDING["bfloat16"] < large


def test_channels_first_are_refused() -> None:
    with pytest.raises(LoweringError, match=r"lowering\.winograd=\[4\] lowering\.channels_last=false"):
        Lowering(winograd=[4], channels_last=False)


@pytest.mark.parametrize("rules_out", [{"dtype": "int8"}, {"channels_last": False}])
def test_auto_is_off_where_another_setting_rules_it_out(rules_out: dict[str, Any]) -> None:
    assert AUTO.winograd_tiles == (2, 4)
    assert Lowering(winograd="auto", **rules_out).winograd_tiles == ()


def test_records_are_not_of_alternatives(tmp_path: Path) -> None:
    with pytest.raises(GenerateConfigError, match=r"lowering\.winograd=\[4\]: records are of"):
        GenerateConfig(tmp_path, networks=["resnet18"], lowering=Lowering(winograd=[4]))


@pytest.mark.parametrize("pads", [[1, 1, 1, 1], [0, 0, 1, 1], [2, 2, 0, 0]], ids=str)
def test_padding_that_differs_between_the_sides_keeps_its_outputs(pads: list[int], tmp_path: Path) -> None:
    """Pads of an ONNX file are top, left, bottom and right."""
    network = load_network(str(onnx_convolution(tmp_path / "padded.onnx", pads)))
    mod, found = found_in(network, target=parse_target("llvm"))
    assert bool(found) == (pads == [1, 1, 1, 1])
    (reference,) = network.reference_outputs()
    (output,) = compile_network(with_alternatives(mod, found[:1]), parse_target("llvm"))(*network.inputs)
    np.testing.assert_allclose(output, reference, atol=2e-5 * np.abs(reference).max())


def onnx_convolution(path: Path, pads: list[int]) -> Path:
    """ReLU of a 3x3 convolution of 32 channels over [1, 32, 12, 12]."""
    onnx = pytest.importorskip("onnx")
    helper, real = onnx.helper, onnx.TensorProto.FLOAT
    weight = np.random.default_rng(0).standard_normal((32, 32, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], pads=pads), helper.make_node("Relu", ["y"], ["z"])],
        "padded",
        [helper.make_tensor_value_info("x", real, [1, 32, 12, 12])],
        [helper.make_tensor_value_info("z", real, None)],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_other_types_are_not_offered() -> None:
    network = network_of(bias=False)
    network.module.double()
    double = replace(network, inputs=tuple(x.astype(np.float64) for x in network.inputs))
    assert found_in(double)[1] == []


@given(
    size=st.tuples(st.integers(4, 15), st.integers(4, 31)),
    batch=st.integers(1, 2),
    padding=st.integers(0, 1),
    epilogue=st.sampled_from([{}, {"relu": False}, {"bias": False}, {"residual": True}]),
    tile=st.sampled_from([2, 4]),
)
@settings(deadline=None, max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_outputs_are_those_of_pytorch(
    monkeypatch: pytest.MonkeyPatch,
    size: tuple[int, int],
    batch: int,
    padding: int,
    epilogue: dict[str, Any],
    tile: int,
) -> None:
    monkeypatch.setattr(kind, "LEAST_GAIN", 0.0)
    here = parse_target("llvm")
    if epilogue.get("residual"):
        padding = 1
    network = network_of(size, batch, padding=padding, in_channels=16, out_channels=16, **epilogue)
    mod, (alternative,) = found_in(network, Lowering(winograd=[tile]))
    changed = with_alternatives(mod, [alternative])
    (task,) = alternative.offer.tasks
    assert call_counts(changed)[task.workload_hash] == 1
    assert task.operator == "conv2d_winograd"
    (reference,) = network.reference_outputs()
    (output,) = compile_network(changed, here)(*network.inputs)
    np.testing.assert_allclose(output, reference, atol=2e-5 * np.abs(reference).max())
