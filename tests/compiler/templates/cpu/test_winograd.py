"""Templates of Winograd's algorithm: what they compute, and which are tried."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import tvm
from foretune.compiler.codegen.compilation import compile_module, entries
from foretune.compiler.instruction_sets import INSTRUCTION
from foretune.compiler.networks import Lowering, find_alternatives, load_network, to_relax
from foretune.compiler.networks.alternatives import winograd
from foretune.compiler.networks.alternatives.winograd_function import placed_weight
from foretune.compiler.operators.convolutions.conv2d_winograd import WinogradConv2d
from foretune.compiler.operators.convolutions.winograd import TRANSFORMS, transform_weight
from foretune.compiler.replay import replay, trace_to_json
from foretune.compiler.targets import target_instructions
from foretune.compiler.templates.cpu.programs import scheduled_winograd, template_traces
from foretune.compiler.templates.cpu.winograd import Winograd, cycles, read_winograd, winograd_templates
from foretune.compiler.tvm_compat import as_task_module, make_tune_context, parse_target

pytestmark = pytest.mark.cpu

HERE = parse_target("llvm")
FMA = INSTRUCTION["avx512_fma"]
LARGE = Winograd(4, (1, 14, 14), 64, 64, padded=True, steps=("T_add", "compute"))


def task_of(
    tile: int, size: tuple[int, int], residual: bool = False, batch: int = 1, dtype: str = "float32"
) -> tvm.IRModule:
    arguments = {"in_channels": 32, "out_channels": 32, "kernel_size": 3, "padding": 1, "residual": residual}
    network = load_network("support.networks:OneConvolution", inputs=[[batch, 32, *size]], kwargs=arguments)
    lowering = Lowering(winograd=[tile], dtype=dtype)
    target = parse_target({"kind": "llvm", "mcpu": "cooperlake", "num-cores": 2})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(winograd, "LEAST_GAIN", 0.0)
        (alternative,) = find_alternatives(to_relax(network, target, lowering), target, lowering)
    return alternative.offer.tasks[0].mod


def test_the_task_is_read_back() -> None:
    task = read_winograd(task_of(4, (14, 26)))
    assert task is not None
    assert (task.tile, task.tiles, task.in_channels, task.out_channels) == (4, (1, 4, 7), 32, 32)
    assert task.padded and task.steps == ("T_add", "compute") and task.last == "compute"
    assert task.products == 36
    # The operator of sampled tasks has other stages.
    sampled = WinogradConv2d(in_channels=16, height=8, width=8, out_channels=16, batch=1)
    assert read_winograd(as_task_module(sampled.prim_func())) is None


@pytest.mark.parametrize(
    ("tile", "size", "residual", "dtype"),
    [(4, (13, 26), False, "float32"), (2, (7, 9), True, "float32"), (2, (8, 13), True, "bfloat16")],
    ids=["F4", "F2", "F2 in bfloat16"],
)
def test_programs_compute_the_convolution(
    tile: int, size: tuple[int, int], residual: bool, dtype: str
) -> None:
    mod = task_of(tile, size, residual, batch=2, dtype=dtype)
    task = read_winograd(mod)
    found = target_instructions(HERE, dtype, dtype, "float32")
    if not found:
        pytest.skip(f"this CPU has no multiply-add of {dtype}")
    instruction = next(one for one in found if not one.tiles)
    tolerance = 2e-5 if dtype == "float32" else 2.0**-6
    templates = winograd_templates(task, [instruction], None, 2)
    staged = next(template for template in templates if template.block is None)
    blocked = next(template for template in templates if template.block is not None)
    rng = np.random.default_rng(0)
    data = rng.standard_normal((2, *size, 32)).astype(np.float32)
    weight = (rng.standard_normal((3, 3, 32, 32)) / 17).astype(np.float32)
    bias = rng.standard_normal((1, 1, 1, 32)).astype(np.float32)
    images, kernel = torch.from_numpy(data).permute(0, 3, 1, 2), torch.from_numpy(weight).permute(3, 2, 0, 1)
    expected = torch.nn.functional.conv2d(images, kernel, padding=1).permute(0, 2, 3, 1).numpy() + bias
    expected = np.maximum(expected + data if residual else expected, 0)
    transformed = transform_weight(weight, TRANSFORMS[tile])
    given = [data.astype(dtype), placed_weight(transformed, dtype), bias]
    for template in (staged, blocked):
        candidate = replay(
            make_tune_context(mod, HERE, seed=0),
            trace_to_json(scheduled_winograd(mod, task, template).trace),
        )
        assert candidate is not None
        # The weight in its own layout: the program that checks outputs changes it itself.
        module, buffers = entries(candidate.sch.mod, checked=True)
        entry = "checked" if "checked" in buffers else "main"
        by_shape = {array.shape: array for array in given}
        tensors = [
            tvm.runtime.tensor(by_shape.get(tuple(shape), np.zeros(shape, dtype)))
            for shape, dtype in buffers[entry]
        ]
        compile_module(module, HERE)[entry](*tensors)
        output = tensors[-1].numpy().astype(np.float32)
        np.testing.assert_allclose(output, expected, atol=tolerance * np.abs(expected).max())


def test_traces_are_those_of_the_best_templates() -> None:
    traces = template_traces(task_of(4, (14, 26)), HERE, None, 3)
    assert len(set(traces)) == 3
    cuda = parse_target("nvidia/nvidia-a100")
    assert template_traces(task_of(4, (14, 26)), cuda, None, 3) == []


def test_blocks_and_stages_are_tried_in_turn() -> None:
    templates = winograd_templates(LARGE, [FMA], None, 2)
    assert [template.block is None for template in templates[:4]] in ([False, True] * 2, [True, False] * 2)
    for template in templates:
        across, along = template.row_tile
        assert across * along * template.vectors + template.vectors < FMA.registers
        if template.block is not None:
            assert (14 % template.block[0], 14 % template.block[1]) == (0, 0)
            assert (template.block[0] % across, template.block[1] % along) == (0, 0)


def test_channels_must_be_whole_vectors() -> None:
    assert winograd_templates(Winograd(4, (1, 2, 2), 24, 16, True, ()), [FMA], None, 2) == []
    assert winograd_templates(LARGE, [], None, 2) == []


def test_the_closed_form_by_hand() -> None:
    template = next(
        t for t in winograd_templates(LARGE, [FMA], None, 1) if t.block == (1, 14) and t.vectors == 2
    )
    assert template.row_tile == (1, 14)
    # A register tile of 14 x 2 sums takes 64 steps of 14 cycles and 28 to store. A block has 36 products of
    # two panels, and there are 14 blocks. Between the stages are 36 * 14 * 128 floats, within a megabyte. The
    # weight of 36 * 64 * 64 floats, over half of one, is read for each block at 16 bytes a cycle.
    weight = 4 * 36 * 64 * 64
    assert cycles(LARGE, template, 1 << 20, 1) == 14 * 36 * 2 * (64 * 14 + 28) + 14 * weight / 16
    assert cycles(LARGE, template, 1 << 21, 2) == 7 * 36 * 2 * (64 * 14 + 28) + weight / 16
    # Stage by stage, the weight is read once, whatever the images, by all cores together.
    staged = replace(template, block=None)
    one, four = (replace(LARGE, tiles=(images, *LARGE.tiles[1:])) for images in (1, 4))
    assert cycles(four, staged, 1 << 30, 2) == 4 * cycles(one, staged, 1 << 30, 2) - 3 * weight / 16 / 2
