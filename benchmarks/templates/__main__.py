"""Entry of `python -m benchmarks.templates`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import tvm
from foretune.dataset.measure.compilation import TIMED, compile_module, entries
from foretune.dataset.operators.shared.epilogue import fuse
from foretune.dataset.operators.shared.matmul import matmul
from foretune.dataset.replay import replay, trace_to_json
from foretune.dataset.templates.contraction import read_contraction
from foretune.dataset.templates.depthwise import DepthwiseTemplate, read_depthwise
from foretune.dataset.templates.instructions import require_instructions
from foretune.dataset.templates.programs import AnyTemplate, template_programs
from foretune.dataset.tvm_compat import as_task_module, make_tune_context, parse_target, with_layout_free
from tvm import te, topi
from tvm.target import Target

from .. import templates
from ..common import RESULTS, argument_parser, start, this_machine, write_result
from .peak import peak_gflops

TYPES = {
    "float32": ("float32", "float32", "float32"),
    "bfloat16": ("bfloat16", "bfloat16", "float32"),
    "uint8": ("uint8", "int8", "int32"),
}
"""Data types of data, weight and sums."""

PRODUCTS = ((128, 768, 768), (128, 3072, 768), (128, 768, 3072))
"""Rows, columns and depth: the linear layers of BERT-base at a sequence of 128."""

CONVOLUTIONS = (
    (56, 64, 64, 3),
    (28, 128, 128, 3),
    (14, 256, 256, 3),
    (7, 512, 512, 3),
    (56, 64, 256, 1),
    (14, 1024, 256, 1),
)
"""Size, channels, filters and kernel: layers of ResNet-18 and ResNet-50."""

DEPTHWISE = ((112, 32, 1), (56, 96, 2), (56, 144, 1), (28, 192, 1), (14, 576, 1), (7, 960, 1))
"""Size of the image, channels and stride of 3x3: layers of MobileNetV2."""


def main() -> None:
    parser = argument_parser(templates)
    parser.add_argument("--target", default="llvm", help="target (%(default)s)")
    parser.add_argument("--templates", type=int, default=4, help="templates of a shape (%(default)s)")
    parser.add_argument("--types", nargs="+", default=list(TYPES), choices=TYPES, help="(all)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="(%(default)s)")
    arguments = parser.parse_args()
    begun, target = start(), parse_target(arguments.target)
    peaks: dict[str, float] = {}
    rows: list[dict[str, Any]] = []
    for dtype in arguments.types:
        # Depthwise convolutions of all types are multiply-adds of float32 or int32.
        for kinds in (TYPES[dtype], TYPES["float32"]):
            for instruction in require_instructions(target, *kinds):
                if instruction.name not in peaks:
                    peaks[instruction.name] = peak_gflops(instruction, target)
                    print(f"{instruction.name}: {peaks[instruction.name]:.0f} GFLOP/s", flush=True)
        for name, module in _shapes(dtype).items():
            rows += _measured(name, dtype, module, target, arguments.templates, peaks)
    result = {"peak_gflops": peaks, "shapes": rows}
    hardware = this_machine(arguments.target)
    print(f"wrote {write_result('templates', result, begun, hardware, results=arguments.out)}")


def _measured(
    name: str, dtype: str, module: tvm.IRModule, target: Target, count: int, peaks: Mapping[str, float]
) -> list[dict[str, Any]]:
    """One row for each instruction that a template of the shape uses: the fastest of `count` templates."""
    context = make_tune_context(module, target, seed=0)
    found: dict[str, dict[str, Any]] = {}
    flops = flops_of(module)
    begun = time.perf_counter()
    for template, program in islice(template_programs(module, target, None), count):
        candidate = replay(context, trace_to_json(program.trace))
        if candidate is None:
            print(f"  {name} {dtype}: {template} does not replay", flush=True)
            continue
        seconds = _seconds(candidate.sch.mod, target)
        gflops = flops / seconds / 1e9
        row = {
            "shape": name,
            "dtype": dtype,
            "instruction": template.instruction.name,
            **_parameters(template),
            "latency_s": seconds,
            "gflops": gflops,
            "share_of_peak": gflops / max(peaks[i] for i in peaks if i == template.instruction.name),
        }
        if seconds < found.get(template.instruction.name, {"latency_s": np.inf})["latency_s"]:
            found[template.instruction.name] = row
    for row in found.values():
        row["choice_s"] = time.perf_counter() - begun
        print(
            f"  {name} {dtype} {row['instruction']} {row['rows']}x{row['vectors']}: "
            f"{row['gflops']:.0f} GFLOP/s, {row['share_of_peak']:.0%}",
            flush=True,
        )
    return list(found.values())


def flops_of(module: tvm.IRModule) -> int:
    """Multiplications and additions of a product or a convolution."""
    if (layer := read_depthwise(module)) is not None:
        return 2 * layer.images * layer.rows * layer.columns * layer.channels * layer.taps
    task = read_contraction(module)
    return 2 * task.batch_count * task.row_count * task.column.extent * task.depth


def _parameters(template: AnyTemplate) -> dict[str, Any]:
    """Rows and vectors of the register tile, and what is around it."""
    if isinstance(template, DepthwiseTemplate):
        return {"rows": prod(template.tile), "vectors": template.vectors, "block": template.block}
    return {
        "rows": template.rows * template.row_tiles,
        "vectors": template.vectors,
        "order": template.order,
    }


def _seconds(program: tvm.IRModule, target: Target) -> float:
    """Shortest of some runs whose operands are in the caches as far as they fit."""
    module, buffers = entries(program, checked=False)
    run = compile_module(module, target)[TIMED]
    tensors = [tvm.runtime.tensor(values_of(*buffer)) for buffer in buffers[TIMED]]
    best, until = np.inf, time.perf_counter() + 0.03
    while time.perf_counter() < until:
        begun = time.perf_counter()
        run(*tensors)
        best = min(best, time.perf_counter() - begun)
    return float(best)


def values_of(shape: tuple[int, ...], dtype: str) -> Any:
    values = np.random.default_rng(0).integers(0, 8, shape)
    return values.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def _shapes(dtype: str) -> dict[str, tvm.IRModule]:
    """Each shape with a bias and ReLU, as a task whose weight may be packed ahead of time."""
    found = {}
    for rows, columns, depth in PRODUCTS:
        found[f"dense {rows}x{columns}x{depth}"] = product(dtype, rows, columns, depth)
    for size, channels, filters, kernel in CONVOLUTIONS:
        name = f"conv {size} {channels}-{filters} {kernel}x{kernel}"
        found[name] = convolution(dtype, size, channels, filters, kernel)
    data_type, weight_type, sums = TYPES[dtype]
    for size, channels, stride in DEPTHWISE:
        data = te.placeholder((1, size, size, channels), data_type, name="data")
        weight = te.placeholder((3, 3, 1, channels), weight_type, name="weight")
        window = [stride] * 2, [1] * 4, [1, 1], channels, "NHWC", "HWIO", sums
        output = topi.nn.conv(data, weight, *window)
        name = f"depthwise {size} {channels} 3x3{f' / {stride}' if stride > 1 else ''}"
        found[name] = _task(data, weight, output, (1, 1, 1, channels))
    return found


def product(dtype: str, rows: int, columns: int, depth: int) -> tvm.IRModule:
    """A linear layer with bias and ReLU as a task."""
    data_type, weight_type, sums = TYPES[dtype]
    data = te.placeholder((rows, depth), data_type, name="data")
    weight = te.placeholder((depth, columns), weight_type, name="weight")
    return _task(data, weight, matmul(data, weight, sums), (columns,))


def convolution(dtype: str, size: int, channels: int, filters: int, kernel: int) -> tvm.IRModule:
    """A convolution of a square image with bias and ReLU as a task."""
    data_type, weight_type, sums = TYPES[dtype]
    data = te.placeholder((1, size, size, channels), data_type, name="data")
    weight = te.placeholder((kernel, kernel, channels, filters), weight_type, name="weight")
    window = [1, 1], [kernel // 2] * 4, [1, 1], 1, "NHWC", "HWIO", sums
    return _task(data, weight, topi.nn.conv(data, weight, *window), (1, 1, 1, filters))


def _task(data: te.Tensor, weight: te.Tensor, output: te.Tensor, bias: tuple[int, ...]) -> tvm.IRModule:
    others, output = fuse(output, "bias_relu", bias)
    func = te.create_prim_func([data, weight, *others, output], index_dtype_override="int64")
    return as_task_module(with_layout_free(func, [1]))


if __name__ == "__main__":
    main()
