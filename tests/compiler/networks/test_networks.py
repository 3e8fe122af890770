"""Networks as tasks: loading by name, import path and ONNX file, folding, extraction, errors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import tvm
from foretune.compiler.networks import (
    Lowering,
    Network,
    NetworkExportError,
    UnknownNetworkError,
    extract_tasks,
    load_network,
    task_names,
    to_relax,
)
from foretune.compiler.networks.importing.onnx_graph import BadOnnxError
from foretune.compiler.networks.inputs import BadInputShapeError, example_inputs
from foretune.compiler.networks.known import ZOO, MissingExtraError, ZooEntry, require_extra
from foretune.compiler.networks.lowering.fold_batch_norm import fold_batch_norm
from foretune.compiler.operators import Dense
from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import as_task_module, parse_target, workload_hash
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax
from tvm.relax.frontend.torch import from_exported_program
from tvm.s_tir import meta_schedule as ms

RESIDUAL = "support.networks:Residual"


@pytest.fixture(scope="module")
def target() -> tvm.target.Target:
    return parse_target("llvm")


# Loading


def test_a_seed_fixes_weights_and_inputs() -> None:
    def build(seed: int) -> Network:
        return load_network(RESIDUAL, inputs=[[1, 8, 6, 6]], seed=seed)

    (logits, first), (_, again), (_, other) = (build(seed).reference_outputs() for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)
    assert logits.shape == (1, 8, 6, 6) and first.shape == (1, 3)


def test_loading_leaves_the_global_seed_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    load_network(RESIDUAL, inputs=[[1, 8, 6, 6]], seed=1)
    assert torch.equal(torch.rand(3), expected)


def test_factory_arguments_and_typed_inputs() -> None:
    tokens = {"shape": [2, 3], "dtype": "int64", "high": 50}
    network = load_network(
        "support.networks:Embedding", inputs=[tokens, [2, 3, 1]], kwargs={"vocabulary": 50}
    )
    assert network.name == "Embedding"
    assert [(a.shape, str(a.dtype)) for a in network.inputs] == [((2, 3), "int64"), ((2, 3, 1), "float32")]
    assert network.module is not None and not network.module.training


def test_an_import_path_is_found_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "users_own_network.py").write_text("import torch\nbuild = torch.nn.Identity\n")
    monkeypatch.chdir(tmp_path)
    assert load_network("users_own_network:build", inputs=[[2]]).inputs[0].shape == (2,)


def test_loading_needs_no_tvm() -> None:
    program = (
        "import sys; sys.modules['tvm'] = None\n"
        "from foretune.compiler.networks import load_network\n"
        "print(load_network('dcgan').reference_outputs()[0].shape)"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert printed.stdout == "(1, 3, 64, 64)\n"


def test_a_zoo_name_takes_a_batch_and_hides_no_batch_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.BatchNorm2d(4))

    monkeypatch.setitem(ZOO, "tiny", ZooEntry(build, ({"shape": [1, 3, 5, 5]},)))  # type: ignore[misc]
    network = load_network("tiny", batch=2)
    assert network.inputs[0].shape == (2, 3, 5, 5)
    assert load_network("tiny", inputs=[[1, 3, 7, 7]]).inputs[0].shape == (1, 3, 7, 7)
    assert isinstance(network.module, torch.nn.Sequential)
    # A fresh norm has mean 0 and variance 1.
    assert network.module[1].running_mean.abs().min() > 0
    assert (network.module[1].running_var - 1).abs().min() > 0


@settings(max_examples=50)
@given(
    shape=st.lists(st.integers(1, 5), min_size=0, max_size=4),
    dtype=st.sampled_from(["float32", "float16", "int64", "int32", "uint8", "bool"]),
    high=st.integers(1, 9),
)
def test_example_inputs_have_the_shape_dtype_and_range(shape: list[int], dtype: str, high: int) -> None:
    spec = {"shape": shape, "dtype": dtype, "high": min(high, 2) if dtype == "bool" else high}
    (array,) = example_inputs([spec], seed=0)
    assert array.shape == tuple(shape) and str(array.dtype) == dtype
    assert np.isfinite(array.astype(float)).all()
    if not dtype.startswith("float"):
        assert array.min() >= 0 and int(array.max()) < spec["high"]


# Errors


def test_an_unknown_name_lists_what_is_known_and_the_closest() -> None:
    with pytest.raises(UnknownNetworkError, match=r"network=resnet_18: .*did you mean resnet18\?.*bert_base"):
        load_network("resnet_18")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:Net", "ModuleNotFoundError"),
        ("support.networks:NoSuchClass", "NoSuchClass"),
        ("support.networks:not_a_module", "returned int"),
        ("missing/net.onnx", "no such file"),
    ],
)
def test_networks_that_cannot_be_built(name: str, message: str) -> None:
    with pytest.raises(UnknownNetworkError, match=message):
        load_network(name, inputs=[[1]])


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (None, "needs input shapes"),
        ([[1, 8, 0, 6]], r"inputs\[0\]=.*at least 1"),
        ([[1, "8", 6, 6]], "whole number"),
        ([3], "give a shape"),
        ([{"shape": [1], "size": 3}], "give a shape"),
        ([{"shape": [1], "dtype": "float33"}], "float33"),
        ([{"shape": [1], "dtype": "complex64"}], "complex64"),
        ([{"shape": [1], "dtype": "int64", "high": 0}], "high=0"),
        ([[1, 5, 6, 6]], r"does not run on inputs \[\[1, 5, 6, 6\]\].*5 channels"),
        ([[1, 8, 6, 6], [1]], "does not run"),
    ],
)
def test_bad_inputs_name_what_is_wrong(inputs: list | None, message: str) -> None:
    with pytest.raises(BadInputShapeError, match=message):
        load_network(RESIDUAL, inputs=inputs)


def test_batch_belongs_into_given_shapes() -> None:
    with pytest.raises(BadInputShapeError, match="batch=4"):
        load_network(RESIDUAL, inputs=[[1, 8, 6, 6]], batch=4)
    with pytest.raises(BadInputShapeError, match="batch=0"):
        load_network("resnet18", batch=0)


def test_factory_arguments_need_an_import_path() -> None:
    with pytest.raises(UnknownNetworkError, match="kwargs="):
        load_network("resnet18", kwargs={"num_classes": 3})


def test_a_missing_package_names_its_extra() -> None:
    with pytest.raises(MissingExtraError, match=r"pip install 'foretune\[onnx\]'"):
        require_extra("no_such_package_here", "onnx", "network=x.onnx")


@pytest.mark.parametrize(
    ("factory", "step"),
    [("DataDependent", "torch.export failed"), ("UnknownOperator", "conversion to Relax")],
)
def test_export_errors_name_the_step(factory: str, step: str, target: tvm.target.Target) -> None:
    network = load_network(f"support.networks:{factory}", inputs=[[1, 2, 4, 4]])
    with pytest.raises(NetworkExportError, match=rf"network={factory}: {step}.*: \w+: .+"):
        to_relax(network, target)


# Batch norm


def relax_of(factory: str, shape: list[int]) -> tuple[Network, tvm.IRModule]:
    network = load_network(f"support.networks:{factory}", inputs=[shape])
    assert network.module is not None
    return network, from_exported_program(torch.export.export(network.module, network.torch_inputs()))


def operators_in(mod: tvm.IRModule) -> list[str]:
    names: list[str] = []
    relax.analysis.post_order_visit(
        mod["main"],
        lambda e: (
            names.append(e.op.name) if isinstance(e, relax.Call) and isinstance(e.op, tvm.ir.Op) else None
        ),
    )
    return names


def run(mod: tvm.IRModule, network: Network, target: tvm.target.Target) -> list[np.ndarray]:
    machine = relax.VirtualMachine(tvm.compile(mod, target=target), tvm.cpu())
    outputs = machine["main"](*[tvm.runtime.tensor(array) for array in network.inputs])
    return [output.numpy() for output in outputs]


@pytest.mark.parametrize(
    ("factory", "shape", "multiplications"),
    # Left to multiply: the norm alone, the one behind groups, the one behind a linear layer.
    [
        ("EveryBatchNorm", [2, 3, 8, 8], 3),
        ("SharedConvolution", [1, 2, 5, 5], 1),
        ("ColumnTables", [1, 2, 5, 4], 2),
    ],
)
def test_folding_keeps_the_outputs(
    factory: str, shape: list[int], multiplications: int, target: tvm.target.Target
) -> None:
    network, mod = relax_of(factory, shape)
    folded = fold_batch_norm(mod)
    names = operators_in(folded)
    assert "relax.nn.batch_norm" in operators_in(mod) and "relax.nn.batch_norm" not in names
    assert names.count("relax.multiply") == multiplications
    (expected,), (actual,) = network.reference_outputs(), run(folded, network, target)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


# Tasks

AS_EXPORTED = Lowering(channels_last=False, prepack=False)


def test_tasks_of_a_small_network(target: tvm.target.Target) -> None:
    network = load_network(RESIDUAL, inputs=[[1, 8, 6, 6]])
    tasks = extract_tasks(to_relax(network, target, AS_EXPORTED), target, network.name)
    # Both blocks are one task, called twice, with the batch norm gone into the added constant.
    assert [(task.operator, task.weight) for task in tasks] == [("conv2d", 2), ("other", 1), ("dense", 1)]
    conv = tasks[0]
    assert conv.name.startswith("fused_conv2d_add_add") and "multiply" not in conv.name
    assert conv.source == "network:Residual"
    assert [var.name_hint for var in conv.mod.functions] == ["main"]
    assert conv.settings == {
        "batch": 1,
        "in_channels": 8,
        "height": 6,
        "width": 6,
        "out_channels": 8,
        "kernel": [3, 3],
        "stride": [1, 1],
        "padding": [1, 1],
        "dilation": [1, 1],
        "layout": "NCHW",
        "dtype": "float32",
    }
    assert json.loads(json.dumps(conv.settings)) == conv.settings
    # 2 per multiply-add, and bias, residual and ReLU once an output.
    outputs = 8 * 6 * 6
    assert conv.flops == 2 * outputs * 8 * 9 + 3 * outputs
    assert len(conv.workload_hash) == 16


def test_extraction_agrees_with_metaschedule_and_is_ordered(target: tvm.target.Target) -> None:
    network = load_network("support.networks:EveryBatchNorm", inputs=[[2, 3, 8, 8]])
    mod = to_relax(network, target, AS_EXPORTED)
    stock = {
        workload_hash(task.dispatched[0]): task.weight
        for task in ms.relax_integration.extract_tasks(mod, target)
    }
    tasks = extract_tasks(mod, target, "x")
    assert {task.workload_hash: task.weight for task in tasks} == stock
    assert [task.operator for task in tasks[:2]] == ["conv2d", "depthwise_conv2d"]
    assert list(task_names(mod).items()) == [(task.workload_hash, task.name) for task in tasks]
    again = extract_tasks(to_relax(network, target, AS_EXPORTED), target, "x")
    assert [(t.name, t.workload_hash) for t in tasks] == [(t.name, t.workload_hash) for t in again]


@pytest.mark.parametrize(
    ("layer", "shape", "operator", "settings_part"),
    [
        (torch.nn.Conv2d(8, 8, 3, groups=4), [1, 8, 6, 6], "group_conv2d", {"groups": 4, "padding": [0, 0]}),
        (torch.nn.MaxPool2d(2), [1, 2, 6, 6], "pool2d", {"mode": "max", "stride": [2, 2]}),
        (torch.nn.AvgPool2d(3), [1, 2, 6, 6], "pool2d", {"mode": "avg", "kernel": [3, 3]}),
        (torch.nn.LayerNorm(6), [4, 2, 6], "layer_norm", {"rows": 8, "columns": 6}),
        (torch.nn.GroupNorm(2, 4), [1, 4, 6], "norm", {}),
        (torch.nn.Softmax(-1), [4, 2, 6], "softmax", {"rows": 8, "columns": 6}),
        (torch.nn.GELU(), [2, 6], "elementwise", {}),
        (torch.nn.Conv1d(2, 2, 3), [1, 2, 6], "conv1d", {"length": 6, "kernel": 3}),
        (torch.nn.Conv3d(2, 2, 2), [1, 2, 3, 4, 5], "conv3d", {"depth": 3, "kernel": [2, 2, 2]}),
        (torch.nn.ConvTranspose2d(2, 3, 4), [1, 2, 4, 5], "conv2d_transpose", {"stride": [1, 1]}),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, torch.nn.Module) else None,
)
def test_operator_types(
    layer: torch.nn.Module, shape: list[int], operator: str, settings_part: dict, target: tvm.target.Target
) -> None:
    network = Network("layer", example_inputs([shape], 0), layer.eval())
    (task,) = extract_tasks(to_relax(network, target, AS_EXPORTED), target, network.name)
    assert task.operator == operator
    assert settings_part.items() <= task.settings.items()
    if operator == "pool":
        assert task.settings["arguments"][0] == {"shape": shape, "dtype": "float32"}


def test_plain_reshapes_are_no_tasks(target: tvm.target.Target) -> None:
    module = torch.nn.Sequential(torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(12, 2))
    network = Network("flat", example_inputs([[1, 3, 4, 4]], 0), module.eval())
    mod = to_relax(network, target, AS_EXPORTED)
    assert "reshape" in [var.name_hint for var in mod.functions]
    tasks = extract_tasks(mod, target, network.name)
    assert [task.operator for task in tasks] == ["pool2d", "dense"]
    assert list(task_names(mod).values()) == [task.name for task in tasks]


@pytest.mark.parametrize(
    ("field", "value"), [("operator", "convolution"), ("weight", -1)], ids=["operator", "weight"]
)
def test_a_task_checks_itself(field: str, value: object) -> None:
    mod = as_task_module(Dense(rows=1, in_features=1, out_features=1).prim_func())
    arguments = {"name": "t", "mod": mod, "weight": 1, "source": "operator", "operator": "dense"}
    with pytest.raises(ValueError, match=f"{field}={value!r}"):
        Task(**{**arguments, "settings": {}, "flops": 2.0, field: value})  # type: ignore[arg-type]


# ONNX


def onnx_file(path: Path, batch: int | str, height: int | str = 4) -> Path:
    """relu(conv1x1(x) + bias) over [batch, 2, height, 4]."""
    onnx = pytest.importorskip("onnx")
    helper, real = onnx.helper, onnx.TensorProto.FLOAT
    weight = np.arange(6, dtype=np.float32).reshape(3, 2, 1, 1) - 2
    bias = np.array([1, -1, 0.5], np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w", "b"], ["y"], kernel_shape=[1, 1]),
            helper.make_node("Relu", ["y"], ["z"]),
        ],
        "tiny",
        [helper.make_tensor_value_info("x", real, [batch, 2, height, 4])],
        [helper.make_tensor_value_info("z", real, [batch, 3, height, 4])],
        [onnx.numpy_helper.from_array(weight, "w"), onnx.numpy_helper.from_array(bias, "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


def test_an_onnx_file_becomes_tasks_with_the_same_outputs(tmp_path: Path, target: tvm.target.Target) -> None:
    network = load_network(str(onnx_file(tmp_path / "tiny.onnx", "n")), batch=2)
    assert network.name == "tiny" and network.inputs[0].shape == (2, 2, 4, 4)
    (expected,) = network.reference_outputs()
    x = network.inputs[0]
    # By hand: channel 0 weighs (-2, -1) with bias 1.
    np.testing.assert_allclose(expected[:, 0], np.maximum(-2 * x[:, 0] - x[:, 1] + 1, 0), rtol=1e-5)
    mod = to_relax(network, target, AS_EXPORTED)
    (task,) = extract_tasks(mod, target, network.name)
    assert task.operator == "conv2d" and task.settings["out_channels"] == 3
    machine = relax.VirtualMachine(tvm.compile(mod, target=target), tvm.cpu())
    actual = machine["main"](tvm.runtime.tensor(x)).numpy()
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_onnx_shapes_that_are_open(tmp_path: Path) -> None:
    open_height = str(onnx_file(tmp_path / "height.onnx", 1, "h"))
    with pytest.raises(BadInputShapeError, match="input x has shape"):
        load_network(open_height)
    assert load_network(open_height, inputs=[[1, 2, 5, 4]]).inputs[0].shape == (1, 2, 5, 4)
    with pytest.raises(BadInputShapeError, match="batch=3"):
        load_network(str(onnx_file(tmp_path / "fixed.onnx", 1)), batch=3)


def test_a_broken_onnx_file_is_named(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"not a model")
    with pytest.raises(BadOnnxError, match=r"broken\.onnx"):
        load_network(str(path))


def bias_gelu_file(path: Path) -> Path:
    """An operator of ONNX Runtime alone: GELU of [2, 3] with a bias of (1, -1, 0.5)."""
    onnx = pytest.importorskip("onnx")
    helper, real = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("BiasGelu", ["x", "b"], ["y"], domain="com.microsoft")],
        "fused",
        [helper.make_tensor_value_info("x", real, [2, 3])],
        [helper.make_tensor_value_info("y", real, [2, 3])],
        [onnx.numpy_helper.from_array(np.array([1, -1, 0.5], np.float32), "b")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def test_onnx_runtime_runs_what_the_evaluator_lacks(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    network = load_network(str(bias_gelu_file(tmp_path / "fused.onnx")))
    (output,) = network.reference_outputs()
    x = torch.from_numpy(network.inputs[0]) + torch.tensor([1, -1, 0.5])
    np.testing.assert_allclose(output, torch.nn.functional.gelu(x), rtol=1e-5, atol=1e-6)


def test_an_onnx_file_that_does_not_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    path = bias_gelu_file(tmp_path / "fused.onnx")
    with pytest.raises(BadInputShapeError, match=r"fused\.onnx does not run .* install onnxruntime"):
        load_network(str(path)).reference_outputs()
    channels = load_network(str(onnx_file(tmp_path / "tiny.onnx", 1)), inputs=[[1, 5, 4, 4]])
    with pytest.raises(BadInputShapeError, match=r"tiny\.onnx does not run on inputs \[\[1, 5, 4, 4\]\]"):
        channels.reference_outputs()


def test_an_onnx_file_takes_as_many_inputs_as_it_has(tmp_path: Path) -> None:
    path = onnx_file(tmp_path / "tiny.onnx", 1)
    with pytest.raises(BadInputShapeError, match="has 2 specifications, and the file takes 1 input: x"):
        load_network(str(path), inputs=[[1, 2, 4, 4], [1, 2, 4, 4]])


# Whole networks


@pytest.mark.slow
def test_resnet18_has_its_eighteen_convolutions_with_one_constant_each(target: tvm.target.Target) -> None:
    pytest.importorskip("pytorchcv")
    network = load_network("resnet18")
    tasks = extract_tasks(to_relax(network, target, AS_EXPORTED), target, network.name)
    convs = [task for task in tasks if task.operator == "conv2d"]
    # The stem, 17 more in blocks and 2 of 20 calls repeated: 3x3 at 56 pixels, plain and with the residual.
    assert sum(task.weight for task in convs) == 20 and len(convs) == 18
    assert [task.operator for task in tasks].count("dense") == 1 and len(tasks) == 21
    assert not any(part in task.name for task in tasks for part in ("subtract", "divide", "multiply"))
    # The network's 1.814 GMAC, epilogues not counted.
    assert sum(task.flops * task.weight for task in tasks) == pytest.approx(2 * 1.814e9, rel=0.01)


class Absorbing(torch.nn.Module):
    """Adds a number so large that single precision loses the input."""

    def __init__(self, narrow: bool = False) -> None:
        super().__init__()
        self.narrow = narrow

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.narrow and x.dtype == torch.float64:
            raise RuntimeError("single precision only")
        return (x + 2.0**30) - 2.0**30


class Narrowing(torch.nn.Module):
    """Rounds its input to bfloat16, which has 8 bits of a number."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.bfloat16().float()


def test_a_narrower_type_inside_of_a_network_counts_as_a_rounding() -> None:
    network = Network("narrowing", (np.array([0.5, -3.0], np.float32),), Narrowing())
    assert network.rounding_errors(network.reference_outputs()) == [3 * 2**-8]


def test_a_rounding_error_is_the_distance_to_double_precision() -> None:
    inputs = (np.array([0.5, -3.0], np.float32),)
    network = Network("absorbing", inputs, Absorbing())
    reference = network.reference_outputs()
    assert reference[0].tolist() == [0.0, 0.0]
    assert network.rounding_errors(reference) == [3.0]
    assert Network("narrow", inputs, Absorbing(narrow=True)).rounding_errors(reference) == [0.0]
    assert Network("file", inputs, onnx_path=Path("network.onnx")).rounding_errors(reference) == [0.0]


def test_the_rounding_error_is_the_largest_of_several_evaluations() -> None:
    class Sensitive(torch.nn.Module):
        """Off by 0.5 with oneDNN, by 2 without, and by 4 where an input has another last bit."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.dtype == torch.float64:
                return x
            return x + (0.5 if torch.backends.mkldnn.enabled else 2.0) + 4.0 * (x != 1)

    network = Network("sensitive", (np.ones(8, np.float32),), Sensitive())
    assert network.rounding_errors(network.reference_outputs()) == [pytest.approx(4.5)]
    alone = Network("alone", (np.zeros(8, np.float32),), Sensitive())  # 0 has no neighbour by a relative bit
    assert alone.rounding_errors(alone.reference_outputs()) == [6.0]


class Choosing(Absorbing):
    """Returns the place of the largest element, and the elements with one that is infinite, as well."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        absorbed = super().forward(x)
        return absorbed, 1000 * absorbed.argmin(), absorbed.log()


def test_the_rounding_error_is_of_finite_and_floating_outputs() -> None:
    network = Network("choosing", (np.array([2.0, -3.0], np.float32),), Choosing())
    assert network.rounding_errors(network.reference_outputs()) == [3.0, 0.0, 0.0]
