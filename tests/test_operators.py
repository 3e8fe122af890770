"""Parameterised operators: numbers against PyTorch, structure against imported networks, errors."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
import torch
import tvm
from foretune.dataset.operators import (
    OPERATOR_SETTINGS,
    BatchMatmul,
    Conv2d,
    Dense,
    DepthwiseConv2d,
    OperatorSettings,
    SettingsError,
    settings_from_dict,
    to_task,
)
from foretune.dataset.task import Task
from foretune.dataset.tvm_compat import argument_buffers, design_spaces, make_tune_context, parse_target
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from tvm import relax
from tvm.relax.frontend.torch import from_exported_program
from tvm_ffi import structural_equal

SMALL_CONV = Conv2d(batch=2, in_channels=3, height=9, width=7, out_channels=4, kernel=3)
SMALL_DEPTHWISE = DepthwiseConv2d(batch=1, in_channels=5, height=8, width=8, kernel=3)

STEPS: dict[str, Callable[[torch.Tensor, list[torch.Tensor]], torch.Tensor]] = {
    "none": lambda x, extra: x,
    "bias": lambda x, extra: x + extra[0],
    "bias_relu": lambda x, extra: F.relu(x + extra[0]),
    "bias_relu6": lambda x, extra: F.relu6(x + extra[0]),
    "bias_add": lambda x, extra: x + extra[0] + extra[1],
    "bias_add_relu": lambda x, extra: F.relu(x + extra[0] + extra[1]),
    "bias_gelu": lambda x, extra: F.gelu(x + extra[0]),
}


def random_inputs(task: Task, seed: int = 0) -> list[torch.Tensor]:
    """Standard normal inputs of a task, without its output."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) * 2 for shape, _ in argument_buffers(task.mod)[:-1]]


def run(task: Task, inputs: list[torch.Tensor]) -> np.ndarray:
    """Output of the unscheduled task on this CPU."""
    shape, dtype = argument_buffers(task.mod)[-1]
    output = tvm.runtime.tensor(np.zeros(shape, dtype))
    tvm.compile(task.mod, target="llvm")["main"](*(tvm.runtime.tensor(x.numpy()) for x in inputs), output)
    return output.numpy()


def pytorch_output(op: OperatorSettings, inputs: list[torch.Tensor]) -> torch.Tensor:
    data, weight, *extra = inputs
    if isinstance(op, Conv2d):
        y = F.conv2d(data, weight, None, op.stride, op.padding, op.dilation)
    elif isinstance(op, DepthwiseConv2d):
        y = F.conv2d(data, weight, None, op.stride, op.padding, op.dilation, groups=op.in_channels)
    else:
        y = data @ weight
    return STEPS[op.epilogue](y, extra)


@pytest.mark.parametrize(
    "op",
    [
        *(
            Conv2d(
                batch=2, in_channels=3, height=9, width=7, out_channels=4, kernel=(3, 2), stride=(2, 1),
                padding=(1, 2), dilation=(2, 1), epilogue=epilogue,
            )
            for epilogue in Conv2d.epilogues
        ),
        *(
            DepthwiseConv2d(
                batch=2, in_channels=5, height=8, width=9, kernel=(3, 5), stride=(1, 2), padding=(1, 2),
                epilogue=epilogue,
            )
            for epilogue in DepthwiseConv2d.epilogues
        ),
        *(Dense(rows=5, in_features=7, out_features=6, epilogue=epilogue) for epilogue in Dense.epilogues),
        BatchMatmul(batch=3, rows=4, inner=5, columns=6),
    ],
    ids=lambda op: f"{op.operator}-{op.epilogue}",
)  # fmt: skip
def test_output_equals_pytorch(op: OperatorSettings) -> None:
    task = to_task(op)
    inputs = random_inputs(task)
    np.testing.assert_allclose(run(task, inputs), pytorch_output(op, inputs).numpy(), rtol=1e-4, atol=1e-5)


class Network(torch.nn.Module):
    """One layer of each kind that the operators claim to match."""

    def __init__(self) -> None:
        super().__init__()
        self.plain = torch.nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.depthwise = torch.nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.pointwise = torch.nn.Conv2d(16, 16, 1)
        self.hidden = torch.nn.Linear(16, 24)
        self.bare = torch.nn.Conv2d(16, 4, 1, bias=False)
        self.last = torch.nn.Linear(24, 10)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = F.relu(self.plain(x))
        x = F.relu(self.pointwise(F.relu6(self.depthwise(x))) + x)
        rows = x.flatten(2)
        return self.last(F.relu(self.hidden(x.mean((2, 3))))), rows.transpose(1, 2) @ rows, self.bare(x)


@pytest.fixture(scope="module")
def network_tasks() -> dict[str, tvm.tirx.PrimFunc]:
    """Fused functions of `Network`, imported and legalised the way networks are, by name."""
    program = torch.export.export(Network().eval(), (torch.randn(1, 8, 12, 12),))
    with parse_target("llvm"):
        mod = tvm.ir.transform.Sequential(
            [
                relax.transform.DecomposeOpsForInference(),
                relax.transform.CanonicalizeBindings(),
                relax.transform.FoldConstant(),
                relax.get_pipeline("zero"),
            ]
        )(from_exported_program(program))
    bare = {}
    for name, func in mod.functions.items():
        if isinstance(func, tvm.tirx.PrimFunc):
            bare[name.name_hint] = func.without_attr("global_symbol")
    return bare


@pytest.mark.parametrize(
    "op",
    [
        Conv2d(
            batch=1, in_channels=8, height=12, width=12, out_channels=16, kernel=3, stride=2, padding=1,
            epilogue="bias_relu",
        ),
        DepthwiseConv2d(
            batch=1, in_channels=16, height=6, width=6, kernel=3, padding=1, epilogue="bias_relu6"
        ),
        Conv2d(
            batch=1, in_channels=16, height=6, width=6, out_channels=16, kernel=1, epilogue="bias_add_relu"
        ),
        Conv2d(batch=1, in_channels=16, height=6, width=6, out_channels=4, kernel=1),
        Dense(rows=1, in_features=16, out_features=24, epilogue="bias_relu"),
        Dense(rows=1, in_features=24, out_features=10, epilogue="bias"),
        BatchMatmul(batch=1, rows=36, inner=16, columns=36),
    ],
    ids=lambda op: f"{op.operator}-{op.epilogue}",
)  # fmt: skip
def test_structure_equals_the_task_of_a_network(
    op: OperatorSettings, network_tasks: dict[str, tvm.tirx.PrimFunc]
) -> None:
    ours = op.prim_func().without_attr("global_symbol")
    equal = [name for name, func in network_tasks.items() if structural_equal(ours, func)]
    assert len(equal) == 1, f"{op.label} equals {equal} of {list(network_tasks)}"


@pytest.mark.parametrize("target", ["llvm", "nvidia/nvidia-a100"])
@pytest.mark.parametrize("operator", OPERATOR_SETTINGS)
def test_design_space_has_decisions(operator: str, target: str) -> None:
    shapes = {
        "conv2d": SMALL_CONV,
        "depthwise_conv2d": SMALL_DEPTHWISE,
        "dense": Dense(rows=16, in_features=32, out_features=64, epilogue="bias_relu"),
        "batch_matmul": BatchMatmul(batch=4, rows=16, inner=8, columns=16),
    }
    task = to_task(shapes[operator])
    context = make_tune_context(task.mod, parse_target(target), seed=0)
    assert all(space.trace.decisions for space in design_spaces(context, task.name))


def test_flops_by_hand() -> None:
    # 4x4 output, 2 channels out, 3 in, 3x3 kernel: 4 * 4 * 2 * 3 * 9 = 864 multiply-adds.
    conv = Conv2d(batch=1, in_channels=3, height=4, width=4, out_channels=2, kernel=3, padding=1)
    assert conv.flops == 1728
    # Dilation 2 makes a 3-kernel span 5: (9 - 5) // 2 + 1 = 3 rows, and 3 columns of 7 - 5 + 1.
    strided = DepthwiseConv2d(batch=2, in_channels=4, height=9, width=7, kernel=3, stride=(2, 1), dilation=2)
    assert strided.output_size == (3, 3)
    assert strided.flops == 2 * (2 * 4 * 3 * 3) * 9
    assert Dense(rows=2, in_features=3, out_features=5).flops == 60
    assert BatchMatmul(batch=7, rows=2, inner=3, columns=5).flops == 420


@pytest.mark.parametrize("op", [SMALL_CONV, SMALL_DEPTHWISE], ids=lambda op: op.operator)
def test_flops_of_a_plain_operator_equal_tvms_count(op: OperatorSettings) -> None:
    assert to_task(op).flops == op.flops


def test_task_describes_its_settings() -> None:
    task = to_task(SMALL_CONV)
    assert (task.operator, task.source, task.weight) == ("conv2d", "operator", 1)
    assert task.settings["kernel"] == [3, 3]
    assert argument_buffers(task.mod) == [
        ((2, 3, 9, 7), "float32"), ((4, 3, 3, 3), "float32"), ((2, 4, 7, 5), "float32")
    ]  # fmt: skip


pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))


@given(
    channels=st.integers(1, 64), height=st.integers(7, 40), kernel=pairs, stride=pairs, padding=pairs,
    dilation=pairs, epilogue=st.sampled_from(Conv2d.epilogues), dtype=st.sampled_from(["float32", "float16"]),
)  # fmt: skip
@settings(deadline=None, max_examples=50)
def test_json_round_trip(channels: int, height: int, **options: object) -> None:
    op = Conv2d(batch=1, in_channels=channels, height=height, width=9, out_channels=8, **options)
    assert settings_from_dict("conv2d", json.loads(json.dumps(op.to_dict()))) == op


@given(kernel=pairs, stride=pairs, padding=pairs, dilation=pairs)
@settings(deadline=None, max_examples=30)
def test_output_size_is_the_size_tvm_infers(**options: tuple[int, int]) -> None:
    op = Conv2d(batch=1, in_channels=2, height=11, width=8, out_channels=3, **options)
    assert tuple(int(extent) for extent in op.tensors()[-1].shape) == (1, 3, *op.output_size)


def test_one_number_stands_for_both_directions() -> None:
    assert SMALL_CONV.kernel == (3, 3)
    listed = settings_from_dict("conv2d", {**SMALL_CONV.to_dict(), "kernel": [3, 3]})
    assert listed == SMALL_CONV


@pytest.mark.parametrize(
    ("operator", "change", "message"),
    [
        ("conv2d", {"kernel": 12}, r"kernel=\(12, 12\).*spans 12 along height.*has 9.*smaller kernel"),
        ("conv2d", {"dilation": (1, 4)}, r"spans 9 along width.*has 7"),
        ("conv2d", {"stride": 0}, "stride=0: give one or two whole numbers of at least 1"),
        ("conv2d", {"padding": (1, -1)}, r"padding=\(1, -1\): .*at least 0"),
        ("conv2d", {"out_channels": 2.5}, "out_channels=2.5: give a whole number"),
        ("conv2d", {"epilogue": "swish"}, "epilogue='swish': use one of none, bias"),
        ("conv2d", {"dtype": "int3"}, "dtype='int3': use one of float32"),
        ("conv2d", {"groups": 2}, "no setting groups; it has"),
        ("winograd", {}, "operator='winograd': use one of conv2d"),
    ],
)
def test_bad_settings_are_named(operator: str, change: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        settings_from_dict(operator, {**SMALL_CONV.to_dict(), **change})


def test_a_missing_setting_is_named() -> None:
    with pytest.raises(SettingsError, match=r"dense: .*'out_features'.*it needs"):
        settings_from_dict("dense", {"rows": 1, "in_features": 2})
