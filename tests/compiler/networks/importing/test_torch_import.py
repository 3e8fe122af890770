"""PyTorch modules to Relax: folding, decomposition, promotion, outputs, operators in another data type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
import tvm
from foretune.compiler.networks import NetworkExportError, extract_tasks, load_network, to_relax
from foretune.compiler.networks.importing.decompositions import OWN
from foretune.compiler.networks.importing.fold_constants import LIMIT_BYTES, fold_constants
from foretune.compiler.networks.importing.transposed_convolution import LEAST_APART
from foretune.compiler.networks.loading import Network
from foretune.compiler.networks.lowering.buildable import (
    generate_code,
    lower_buildable,
    one_of_each_kind,
    recast_operators,
)
from foretune.compiler.networks.lowering.lowering import AS_FASTEST, lower
from foretune.compiler.networks.outputs import BadOutputError, output_tensors
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.deploy.compile import compile_network
from foretune.inference.deploy.outputs import compare_outputs
from foretune.inference.run.profiling import StageClock
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from tvm import relax

ATEN = torch.ops.aten


class Function(nn.Module):
    """A function as a network, with one parameter `weight` and one buffer `count`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.arange(6.0).reshape(2, 3))
        self.register_buffer("count", torch.zeros(()))

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(self, *inputs)


def network(function: Callable[..., Any], *inputs: np.ndarray[Any, Any]) -> Network:
    return Network("function", inputs, Function(function).eval())


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def target() -> tvm.target.Target:
    return parse_target("llvm")


def folded(function: Callable[..., Any], *inputs: torch.Tensor) -> tuple[int, list[str], Any]:
    """Constants added, operators left, and the outputs of the program behind the folding."""
    with torch.no_grad():
        program = torch.export.export(Function(function).eval(), inputs).run_decompositions()
    count = fold_constants(program)
    left = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    constants = {name: value for name, value in program.constants.items() if name.startswith("folded")}
    return count, left, constants


# Folding


def test_a_mask_that_depends_on_no_input_becomes_a_constant() -> None:
    def masked(_: Any, x: torch.Tensor) -> torch.Tensor:
        position = torch.arange(3)
        mask = (position[None] <= position[:, None]) == torch.ones(3, 3, dtype=torch.bool)
        return x + mask.cumsum(-1)

    count, left, constants = folded(masked, torch.zeros(3, 3))
    assert (count, left) == (1, ["aten.add.Tensor"])
    expected = [[1, 1, 1], [1, 2, 2], [1, 2, 3]]  # the sums of a lower triangle of ones
    assert next(iter(constants.values())).tolist() == expected


def test_what_is_random_changes_or_depends_on_the_input_stays() -> None:
    count, left, _ = folded(lambda _, x: x + torch.rand(3), torch.zeros(3))
    assert count == 0 and "aten.rand.default" in left

    def counting(self: Any, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return x * (self.count + 1)

    count, left, _ = folded(counting, torch.zeros(3))
    assert count == 0 and left.count("aten.add.Tensor") == 2
    assert folded(lambda _, x: x.sin() + 1, torch.zeros(3))[0] == 0


def test_views_of_weights_stay_and_what_is_computed_of_them_does_not() -> None:
    count, left, _ = folded(lambda self, x: x @ self.weight.t(), torch.zeros(1, 3))
    assert count == 0 and "aten.permute.default" in left
    count, left, constants = folded(lambda self, x: x @ (2 * self.weight).t(), torch.zeros(1, 3))
    assert count == 1 and left == ["aten.mm.default"]
    assert next(iter(constants.values())).tolist() == [[0, 6], [2, 8], [4, 10]]


def test_expansions_and_large_values_are_made_in_each_run() -> None:
    side = int((LIMIT_BYTES / 4) ** 0.5)

    def expanded(_: Any, x: torch.Tensor) -> torch.Tensor:
        return x + torch.arange(4.0).sin()[:, None].expand(4, 1000)

    _, left, constants = folded(expanded, torch.zeros(4, 1000))
    assert [tuple(value.shape) for value in constants.values()] == [(4, 1)]
    assert left == ["aten.expand.default", "aten.add.Tensor"]

    def large(_: Any, x: torch.Tensor) -> torch.Tensor:
        return x + torch.arange(float(side + 1))[:, None] * torch.arange(float(side + 1))

    _, left, constants = folded(large, torch.zeros(1, 1))
    assert all(value.numel() * 4 <= LIMIT_BYTES for value in constants.values())
    assert "aten.mul.Tensor" in left


# Decompositions and promotion


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 4), st.integers(1, 4))
def test_adaptive_max_pools_are_decomposed(height: int, width: int, rows: int, columns: int) -> None:
    x = torch.from_numpy(floats(2, height, width))
    expected = torch.nn.functional.adaptive_max_pool2d(x, (rows, columns), return_indices=True)
    for made, wanted in zip(OWN[ATEN.adaptive_max_pool2d.default](x, [rows, columns]), expected, strict=True):
        torch.testing.assert_close(made, wanted, rtol=0, atol=0)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_windows_and_patches_are_decomposed(data: st.DataObject) -> None:
    def pair(least: int, most: int) -> list[int]:
        return [data.draw(st.integers(least, most)) for _ in range(2)]

    x = torch.from_numpy(floats(1, 2, 7, 8))
    axis, size, step = (
        data.draw(st.integers(-4, 3)),
        data.draw(st.integers(1, 1)),
        data.draw(st.integers(1, 3)),
    )
    size = data.draw(st.integers(1, x.shape[axis]))
    assert torch.equal(OWN[ATEN.unfold.default](x, axis, size, step), x.unfold(axis, size, step))
    settings_ = (pair(1, 3), pair(1, 2), pair(0, 2), pair(1, 3))
    assert torch.equal(OWN[ATEN.im2col.default](x, *settings_), ATEN.im2col(x, *settings_))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_transposed_convolutions_become_convolutions(data: st.DataObject) -> None:
    image = data.draw(st.sampled_from([(4, 5), (4, 5), (6, 3), (1, 1)]))
    outer = data.draw(st.sampled_from([2, LEAST_APART]))
    stride = data.draw(st.integers(1 if image == (1, 1) else 2, 3))
    kernel = [data.draw(st.integers(1, 6)) for _ in range(2)]
    padding = [data.draw(st.integers(0, (size - 1) // 2)) for size in kernel]
    further = [data.draw(st.integers(0, stride - 1)) for _ in range(2)]
    x, weight = torch.from_numpy(floats(2, 3, *image)), torch.from_numpy(floats(3, outer, *kernel))
    bias = torch.from_numpy(floats(outer)) if data.draw(st.booleans()) else None
    arguments = (x, weight, bias, [stride] * 2, padding, [1, 1], True, further, 1)
    expected = ATEN.convolution(*arguments)
    found = OWN[ATEN.convolution.default](*arguments)
    if found is NotImplemented:
        whole = [size if image == (1, 1) else -(-size // stride) * stride for size in kernel]
        reached = zip(kernel, whole, padding, further, strict=True)
        assert any(more - pad > covered - size for size, covered, pad, more in reached)
    else:
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


class Upsampling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(4, 3, 4, stride=2, padding=1)
        self.plain = nn.ConvTranspose2d(3, 2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.plain(torch.relu(self.up(x)))


def test_upsampling_runs_at_the_resolution_of_its_input(target: tvm.target.Target) -> None:
    upsampling = Network("upsampling", (floats(1, 4, 6, 5),), Upsampling().eval())
    mod = to_relax(upsampling, target)
    operators = [task.operator for task in extract_tasks(mod, target, "upsampling")]
    assert operators.count("conv2d_transpose") == 1 and operators.count("conv2d") == 1
    check = compare_outputs(upsampling.reference_outputs(), compile_network(mod, target)(*upsampling.inputs))
    assert check.agrees


class Generator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.ConvTranspose2d(8, 32, 4)
        self.second = nn.ConvTranspose2d(32, LEAST_APART, 4, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


def test_upsampling_computes_no_output_that_nobody_keeps(target: tvm.target.Target) -> None:
    """A window of one pixel is a product; each of 8 x 8 outputs has 2 x 2 taps of 32 channels."""
    generator = Network("generator", (floats(1, 8, 1, 1),), Generator().eval())
    mod = to_relax(generator, target)
    tasks = extract_tasks(mod, target, "generator")
    products = [task for task in tasks if task.operator in ("dense", "conv2d")]
    assert [(task.operator, task.weight) for task in products] == [("dense", 1), ("conv2d", 4)]
    assert products[0].flops == 2 * 8 * 32 * 16
    assert 4 * products[1].flops == 2 * 64 * 4 * 32 * LEAST_APART
    check = compare_outputs(generator.reference_outputs(), compile_network(mod, target)(*generator.inputs))
    assert check.agrees


class Everything(nn.Module):
    """Operators that the importer alone refuses or that no code is built for, each as one output."""

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> Any:
        positive, small = x > 0, n < 3
        return {
            "equal": positive == (x < 1),
            "differ": positive != (x < 1),
            "sums": positive.cumsum(-1),
            "mixed": torch.cat([x, n], -1),
            "halves": n // 2,
            "product": x * n,
            "chosen": torch.where(small, x, n),
            "largest": x.amax((-1, -2)),
            "pooled": torch.nn.functional.adaptive_max_pool2d(x[None], (2, 3)),
            "resized": torch.nn.functional.interpolate(x[None, None], size=(7, 9)),
            "counted from the back": x[:, [-2, 1]],
            "from the back by an input": x[n[0, :4] - 4],
            "squeezed": torch.nn.functional.conv2d(x[None, None], x[None, None, :2, :2]).max(-1)[0],
        }


def test_each_way_to_a_buildable_operator_computes_what_pytorch_does(target: tvm.target.Target) -> None:
    numbers = np.arange(20).reshape(4, 5)
    every = Network("everything", (floats(4, 5), numbers), Everything().eval())
    clock = StageClock()
    mod = to_relax(every, target, stage=clock.stage)
    steps = ["torch.export", "conversion to Relax", "lowering to TIR", "check that TVM builds it"]
    assert list(clock.seconds) == steps and all(clock.seconds.values())
    assert recast_operators(mod) == ["equal of bool in int32", "not_equal of bool in int32"]
    compiled = compile_network(mod, target)
    reference, outputs = every.reference_outputs(), compiled(*every.inputs)
    assert [out.dtype for out in outputs] == [expected.dtype for expected in reference]
    assert compare_outputs(reference, outputs).agrees
    assert extract_tasks(mod, target, "everything")


# Operators that cannot be built


def relax_of(*dtypes: str) -> tvm.IRModule:
    """An equality of two tensors."""
    builder = relax.BlockBuilder()
    x, y = (
        relax.Var(name, relax.TensorType((2, 4), dtype)) for name, dtype in zip("xy", dtypes, strict=True)
    )
    with builder.function("main", [x, y]):
        builder.emit_func_output(builder.emit(relax.op.equal(x, y)))
    return builder.get()


def test_only_what_does_not_build_is_recast(target: tvm.target.Target) -> None:
    assert recast_operators(lower_buildable(relax_of("float32", "float32"), target, AS_FASTEST)) == []
    plain = lower(relax_of("bool", "bool"), target, AS_FASTEST)
    with pytest.raises(Exception, match=r"kDLFloat|FCmp"):
        generate_code(plain, target)  # the day this builds, nothing needs to be recast
    recast = lower_buildable(relax_of("bool", "bool"), target, AS_FASTEST)
    assert recast_operators(recast) == ["equal of bool in int32"]
    generate_code(recast, target)


def test_one_function_of_each_kind_is_checked(target: tvm.target.Target) -> None:
    builder = relax.BlockBuilder()
    types = [((2, 4), "float32"), ((3, 5), "float32"), ((2, 3, 4), "float32"), ((2, 4), "int32")]
    inputs = [relax.Var(f"x{number}", relax.TensorType(*given)) for number, given in enumerate(types)]
    with builder.function("main", inputs):
        products = [builder.emit(relax.op.multiply(x, x)) for x in inputs]
        builder.emit_func_output(relax.Tuple(products))
    lowered = lower(builder.get(), target, AS_FASTEST)
    checked = one_of_each_kind(lowered)
    names = [var.name_hint for var, f in lowered.functions_items() if isinstance(f, tvm.tirx.PrimFunc)]
    left_out = [name for name in names if isinstance(checked[name].body, tvm.tirx.Evaluate)]
    assert len(names) == 4 and len(left_out) == 1
    (shape,) = {tuple(map(int, lowered[name].params[0].shape)) for name in left_out}
    assert shape in [(2, 4), (3, 5)]
    generate_code(checked, target)


def test_an_operator_that_builds_in_no_type_is_named(
    target: tvm.target.Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foretune.compiler.networks.lowering.buildable.WIDER", {})
    masks = network(lambda _, x: (x > 0) == (x < 1), floats(3))
    with pytest.raises(
        NetworkExportError, match=r"network=function: lowering to TIR .* equal of bool, bool; "
    ):
        to_relax(masks, target)


def test_an_operator_that_the_importer_lacks_is_named(target: tvm.target.Target) -> None:
    inverse = network(lambda _, x: torch.linalg.inv(x), floats(4, 4))
    with pytest.raises(NetworkExportError, match=r"conversion to Relax failed: .*linalg_inv.*; compute this"):
        to_relax(inverse, target)


def test_an_operator_that_fails_inside_pytorch_is_named_with_its_line(target: tvm.target.Target) -> None:
    across = network(lambda _, x: nn.CrossMapLRN2d(3)(x), floats(1, 4, 2, 2))
    place = r"failed at aten\.select\.int \(test_torch_import\.py:\d+\): RuntimeError"
    with pytest.raises(NetworkExportError, match=place):
        to_relax(across, target)


# Outputs


@dataclass
class Answer:
    score: torch.Tensor
    parts: dict[str, Any]
    name: str = "none"


def test_nested_outputs_are_flattened(target: tvm.target.Target) -> None:
    def nested(_: Any, x: torch.Tensor) -> Any:
        return Answer(x + 1, {"b": [x + 2, None], "a": (x + 3, "text", 4)}), [x + 5]

    nest = network(nested, floats(2))
    (x,) = nest.inputs
    np.testing.assert_allclose(nest.reference_outputs(), [x + 1, x + 2, x + 3, x + 5])
    np.testing.assert_allclose(
        compile_network(to_relax(nest, target), target)(x), [x + 1, x + 2, x + 3, x + 5]
    )


@pytest.mark.parametrize("output", [None, "text", 3, [], {"a": None}])
def test_an_output_without_a_tensor_is_refused(output: Any) -> None:
    with pytest.raises(BadOutputError, match="without any tensor; return a tensor"):
        output_tensors(output)


def test_an_object_that_may_hide_tensors_is_refused() -> None:
    with pytest.raises(BadOutputError, match="an output is a object, which PyTorch cannot take apart"):
        output_tensors((torch.zeros(1), object()))


def test_loading_tells_of_a_network_without_a_tensor() -> None:
    with pytest.raises(BadOutputError, match=r"^network=support.networks:Nothing: the output is a NoneType"):
        load_network("support.networks:Nothing", inputs=[[2]])


@pytest.mark.parametrize(
    ("factors", "resizes"),
    # By 1.5 and 0.7 the extents are 10 and 15, and 10 and 7: the factor is their ratio.
    [((1.55, (2.0, 1.55)), 0), ((1.5, 0.7), 4)],
    ids=["rounded", "ratios"],
)
def test_resizing_goes_by_its_factors(
    factors: tuple[Any, ...], resizes: int, target: tvm.target.Target
) -> None:
    """By a factor of 1.55, row 3 of 15 is row floor(3 / 1.55) = 1 of 10, not floor(3 * 10 / 15) = 2."""

    def resize(_: Any, x: torch.Tensor) -> list[torch.Tensor]:
        cases = [(factor, mode) for factor in factors for mode in ("nearest", "bilinear")]
        return [torch.nn.functional.interpolate(x, scale_factor=f, mode=mode) for f, mode in cases]

    resized = network(resize, floats(1, 2, 10, 10))
    mod = to_relax(resized, target)
    assert sum("resize2d" in var.name_hint for var in mod.get_global_vars()) == resizes
    outputs = compile_network(mod, target)(*resized.inputs)
    assert compare_outputs(resized.reference_outputs(), outputs).agrees
    if factors[0] == 1.55:
        np.testing.assert_array_equal(outputs[0][0, 0, 3, 0], resized.inputs[0][0, 0, 1, 0])


def test_sums_keep_the_factor_of_their_second_operand(target: tvm.target.Target) -> None:
    def sums(_: Any, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [
            torch.add(x, y, alpha=0.2),
            torch.add(x, 2, alpha=3),
            torch.sub(x, y, alpha=3),
            torch.rsub(x, y, alpha=3),
            torch.rsub(x, 2, alpha=3),
            (2 * x).add_(y, alpha=3),
        ]

    scaled = network(sums, floats(2, 3), floats(2, 3))
    outputs = compile_network(to_relax(scaled, target), target)(*scaled.inputs)
    assert len(outputs) == 6 and compare_outputs(scaled.reference_outputs(), outputs).agrees


@pytest.mark.parametrize("base", [np.arange(6), np.arange(6) > 2], ids=["integers", "booleans"])
def test_powers_of_integers_and_booleans_have_pytorchs_type(
    base: np.ndarray[Any, Any], target: tvm.target.Target
) -> None:
    power = network(lambda _, x: [x**2, x**2.0, x**0.5], base)
    outputs = compile_network(to_relax(power, target), target)(*power.inputs)
    assert [output.dtype for output in outputs] == [np.int64, np.float32, np.float32]
    assert compare_outputs(power.reference_outputs(), outputs).agrees


@pytest.mark.parametrize(("exponents", "calls"), [((2, 3.0, 4), 0), ((2.5,), 1)])
def test_small_powers_are_multiplications(
    exponents: tuple[float, ...], calls: int, target: tvm.target.Target
) -> None:
    powers = network(lambda _, x: [x**exponent for exponent in exponents], np.abs(floats(2, 3)))
    mod = to_relax(powers, target)
    assert sum("power" in var.name_hint for var in mod.get_global_vars()) == calls
    check = compare_outputs(powers.reference_outputs(), compile_network(mod, target)(*powers.inputs))
    assert check.agrees
