"""Shuffles of channels with channels last: which images are still turned, and that outputs stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import tvm
from foretune.compiler.networks import to_relax
from foretune.compiler.networks.loading import Network
from foretune.compiler.networks.lowering.channels_last import shuffles_last
from foretune.compiler.networks.lowering.lowering import AS_FASTEST
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.deploy.compile import compile_network
from foretune.inference.deploy.outputs import compare_outputs
from torch import nn
from tvm import relax


def shuffled(x: torch.Tensor, groups: int) -> torch.Tensor:
    images, channels, *pixels = x.shape
    return x.view(images, groups, channels // groups, *pixels).transpose(1, 2).reshape(x.shape)


class Units(nn.Module):
    """Units of a ShuffleNet: a part of the channels passes, the others are convolved."""

    def __init__(self, groups: int, also_first: bool = False) -> None:
        super().__init__()
        self.groups, self.also_first = groups, also_first
        self.stem = nn.Conv2d(3, 12, 3)
        self.layers = nn.ModuleList(nn.Conv2d(8, 8, 1) for _ in range(2))

    def forward(self, x: torch.Tensor) -> Any:
        x = torch.relu(self.stem(x))
        for layer in self.layers:
            passing, others = x.split([4, 8], 1)
            x = shuffled(torch.cat([passing, layer(others)], 1), self.groups)
        pooled = x.mean((2, 3))
        return (pooled, x.flatten(1)) if self.also_first else pooled


@pytest.mark.parametrize("groups", [2, 3, 4])
def test_outputs_stay(groups: int) -> None:
    target = parse_target("llvm")
    for also_first in (False, True):
        units = Units(groups, also_first).eval()
        image = np.random.default_rng(0).standard_normal((2, 3, 9, 7)).astype(np.float32)
        network = Network("units", (image,), units)
        mod = to_relax(network, target, AS_FASTEST)
        check = compare_outputs(network.reference_outputs(), compile_network(mod, target)(*network.inputs))
        assert check.agrees


def calls(func: relax.Function) -> list[tuple[str, tuple[int, ...]]]:
    """Operators of a function in order, each with its axes."""
    found = []
    for block in func.body.blocks:
        for binding in block.bindings:
            call = binding.value
            if isinstance(call, relax.Call):
                axes = getattr(call.attrs, "axes", None) or [getattr(call.attrs, "axis", ())]
                found.append((call.op.name.removeprefix("relax."), tuple(map(int, filter(None, axes)))))
    return found


def shuffling(shape: tuple[int, ...], grouped: tuple[int, ...], order: tuple[int, ...]) -> tvm.IRModule:
    """Function of an image [2, 4, 5, 12] that turns it, shuffles its channels, and turns it back."""
    builder = relax.BlockBuilder()
    image = relax.Var("x", relax.TensorType((2, 4, 5, 12), "float32"))
    with builder.function("main", [image]):
        with builder.dataflow():
            value = builder.emit(relax.op.permute_dims(image, [0, 3, 1, 2]))
            value = builder.emit(relax.op.reshape(value, grouped))
            value = builder.emit(relax.op.permute_dims(value, list(order)))
            value = builder.emit(relax.op.reshape(value, shape))
            value = builder.emit(relax.op.split(value, [4], 1))
            parts = [builder.emit(relax.TupleGetItem(value, index)) for index in (1, 0)]
            value = builder.emit(relax.op.concat(parts, 1))
            output = builder.emit_output(builder.emit(relax.op.permute_dims(value, [0, 2, 3, 1])))
        builder.emit_func_output(output)
    return builder.get()


def test_a_shuffle_between_turns_is_one_of_the_last_axis() -> None:
    mod = shuffling((2, 12, 4, 5), (2, 3, 4, 4, 5), (0, 2, 1, 3, 4))
    changed = shuffles_last(mod)["main"]
    names = [name for name, _ in calls(changed)]
    assert names == ["reshape", "permute_dims", "reshape", "split", "concat"]
    x = np.arange(480, dtype=np.float32).reshape(2, 4, 5, 12)
    channels = np.arange(12).reshape(3, 4).T.ravel()
    wanted = x[..., np.concatenate([channels[4:], channels[:4]])]
    executable = relax.build(tvm.IRModule({"main": changed}), "llvm")
    got = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(x)).numpy()
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    ("shape", "grouped", "order"),
    [
        ((2, 12, 4, 5), (2, 3, 4, 4, 5), (0, 2, 1, 4, 3)),
        ((2, 12, 5, 4), (2, 3, 4, 4, 5), (0, 2, 1, 3, 4)),
        ((2, 12, 4, 5), (2, 3, 4, 5, 4), (0, 2, 1, 3, 4)),
        ((2, 12, 4, 5), (1, 6, 4, 4, 5), (0, 2, 1, 3, 4)),
    ],
    ids=["pixels turned", "other pixels after", "other pixels between", "images joined"],
)
def test_other_reshapes_stay(shape: Any, grouped: Any, order: Any) -> None:
    mod = shuffling(shape, grouped, order)
    assert [name for name, _ in calls(shuffles_last(mod)["main"])].count("permute_dims") == 3
