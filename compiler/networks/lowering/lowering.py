"""Lowering of Relax operators to fused TIR functions, in the form whose tuned programs are fastest.

On a CPU this takes changes outside the search over schedules:

- Channels last. The innermost loop of a convolution runs over its many output channels, not over the width of
  an image, which is 7 in deep layers.
- Weights whose layout the schedule chooses, so that it reads them in memory order. MetaSchedule calls them
  layout-free buffers, and its postprocessor RewriteLayout sets the layout. Compilation of a network brings
  its constants into that layout once.
- Depthwise convolutions that average their channels, too, if the network asks for it: see `pooled`.
- Data types of 16 bits, if one is asked for: see `low_precision`, and `filled` for layers of few channels. A
  network in int8 comes with products of integers: see `integer_products`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import tvm
import tvm_ffi
from tvm import relax
from tvm.relax.dpl import DFPattern, is_op, wildcard
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.s_tir.stmt import SBlock
from tvm.target import Target
from tvm.tirx import IterVar

from ....errors import UserError
from ...codegen.lifted_constants import with_bound_constants, with_lifted_constants
from ...instruction_sets import step_of
from ...operators.convolutions.winograd import TRANSFORMS
from ...targets import require_instructions, traits
from ...tvm_compat import layout_free, register_clip_layouts, with_layout_free
from ...types import INTEGERS, NETWORK_DTYPES, STORED, TYPES, WIDE, DataType, data_type
from ..low_precision.narrowing import in_stored_type
from .channels_last import shuffles_last
from .dead_taps import without_dead_taps
from .epilogues import fused
from .filled import ALIGNED, filled_channels
from .later_reshapes import later_reshapes
from .long_sums import long_sums
from .pooled import pooled_images
from .rewriting import mutated, operator_of, rewritten
from .symbolic_resizes import symbolic_resizes
from .widened import LANES, widened_channels

OFF, AUTO = "off", "auto"

CHANNELS_LAST = {
    "relax.nn.conv1d": ["NWC", "WIO"],
    "relax.nn.conv2d": ["NHWC", "HWIO"],
    "relax.nn.conv3d": ["NDHWC", "DHWIO"],
}
"""Layouts of data and weight by operator; operators between convolutions follow them."""


class LoweringError(UserError, ValueError):
    """A setting of the lowering cannot be."""


@dataclass(frozen=True)
class Lowering:
    """Options of the lowering. None is True on a CPU, where that is fastest, and False elsewhere."""

    channels_last: bool | None = None
    """Convert convolutions, and the operators between them, to channels last; in 16 bits on GPUs as well."""
    prepack: bool | None = None
    """Let schedules choose the layout of constant weights, which only schedules for a CPU do."""
    dtype: str = WIDE
    """Data type of activations and of weights of products: one of NETWORK_DTYPES."""
    calibration: str | None = None
    """File of `calibration_inputs` for int8; None for random inputs."""
    fill_channels: bool | None = None
    """With channels last, fill up few input channels to whole pairs (`filled`) and output channels to whole
    vectors (`widened`), if an instruction of `dtype` multiplies pairs or fours; on a GPU, fill up both to
    multiples of eight."""
    winograd: Any = AUTO
    """Tile sizes of Winograd's algorithm that are alternatives to 3x3 convolutions: off, a list, or auto for
    all sizes that apply."""
    fusion: str = OFF
    """Back-to-back products fused into one function as alternatives to separate ones: off or auto."""
    attention: str = AUTO
    """Attention in one function as an alternative to separate ones, in float32 and bfloat16 on a CPU: off or
    auto."""
    epilogues: bool = True
    """Fuse products with what follows them element by element (`epilogues`)."""

    def __post_init__(self) -> None:
        for name in ("fusion", "attention"):
            if (value := getattr(self, name)) not in (OFF, AUTO):
                raise LoweringError(f"lowering.{name}={value}: use {OFF} or {AUTO}")
        if self.winograd not in (OFF, AUTO):
            sizes = self.winograd
            listed = isinstance(sizes, Sequence) and not isinstance(sizes, str) and len(sizes) > 0
            if not listed or any(size not in TRANSFORMS for size in sizes):
                raise LoweringError(
                    f"lowering.winograd={sizes}: use off, auto, or a list of tile sizes among "
                    f"{', '.join(map(str, TRANSFORMS))}, as in lowering.winograd=[4]"
                )
        if self.dtype not in NETWORK_DTYPES:
            raise LoweringError(f"lowering.dtype={self.dtype}: use one of {', '.join(NETWORK_DTYPES)}")
        exact = self.data_type.winograd_tiles
        if self.demands_winograd and not set(self.winograd) <= set(exact):
            advice = f"use lowering.winograd={list(exact)}" if exact else "leave one of them out"
            raise LoweringError(
                f"lowering.winograd={self.winograd} lowering.dtype={self.dtype}: transformed values have too "
                f"few digits in {self.dtype}; {advice}"
            )
        if self.demands_winograd and self.channels_last is False:
            raise LoweringError(
                f"lowering.winograd={self.winograd} lowering.channels_last=false: the algorithm has channels "
                "last; leave one of them out"
            )
        if self.calibration is not None and self.data_type.network != INTEGERS:
            quantised = " or ".join(one.name for one in TYPES if one.network == INTEGERS)
            raise LoweringError(
                f"lowering.calibration={self.calibration}: lowering.dtype={self.dtype} needs none; leave it "
                f"out, or use lowering.dtype={quantised}"
            )

    @property
    def data_type(self) -> DataType:
        """Traits of `dtype`."""
        return data_type(self.dtype)

    @property
    def demands_winograd(self) -> bool:
        """Whether `winograd` lists tile sizes: a setting that rules them out is an error then."""
        return self.winograd not in (OFF, AUTO)

    @property
    def winograd_tiles(self) -> tuple[int, ...]:
        """Tile sizes that `winograd` asks for; none if it is off, or another setting rules auto out."""
        if self.demands_winograd:
            return tuple(self.winograd)
        applies = self.winograd == AUTO and self.channels_last is not False
        return self.data_type.winograd_tiles if applies else ()

    def check_for(self, target: Target) -> None:
        """Raises MissingInstructionError if the target lacks the instructions of `dtype`."""
        traits(target).require(self.data_type)
        if self.demands_winograd:
            require_instructions(target, self.dtype, self.dtype, WIDE)


AS_FASTEST = Lowering()


def lower(mod: tvm.IRModule, target: Target, lowering: Lowering) -> tvm.IRModule:
    """Fused TIR functions and a Relax `main` that calls them, of a module whose weights are constants."""
    on_cpu, dtype = traits(target).on_cpu, lowering.data_type
    stored, pairs = dtype.network == STORED, not on_cpu or step_of(dtype.name) > 1
    passes: list[Any] = [
        relax.transform.DecomposeOpsForInference(),
        relax.transform.CanonicalizeBindings(),
        without_dead_taps,
    ]
    fastest = on_cpu or stored  # tensor cores take channels as the depth of a product
    channels_last = fastest if lowering.channels_last is None else lowering.channels_last
    if channels_last:
        register_clip_layouts()
        passes += [
            _counted_axes,
            relax.transform.ConvertLayout(CHANNELS_LAST),
            relax.transform.CanonicalizeBindings(),
            shuffles_last,
        ]
    passes.append(_moved_constants)
    passes.append(later_reshapes)
    fill = fastest if lowering.fill_channels is None else lowering.fill_channels
    if channels_last and fill and pairs and stored:
        passes.append(filled_channels(step_of(dtype.name) if on_cpu else ALIGNED))
    if channels_last and fill and pairs and dtype.name != WIDE:
        passes.append(widened_channels(LANES if on_cpu else ALIGNED))
    passes += [symbolic_resizes, long_sums, relax.transform.LegalizeOps(), *fused(lowering.epilogues)]
    if stored:
        passes.append(in_stored_type(dtype, traits(target).product_sums(dtype)))
    if on_cpu and lowering.epilogues:
        passes.append(pooled_images)
    if on_cpu if lowering.prepack is None else lowering.prepack:
        passes += [relax.transform.AttachAttrLayoutFreeBuffers(), _only_weights]
    with target:
        return tvm.transform.Sequential(passes)(mod)


@tvm.transform.module_pass(opt_level=0, name="CountedAxes")
def _counted_axes(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
    """Counts the axes that a squeeze removes from the front; ConvertLayout runs out of memory otherwise."""
    squeezed = is_op("relax.squeeze")(wildcard())

    def rewrite(expr: relax.Expr, _: Mapping[DFPattern, relax.Expr]) -> relax.Expr:
        data, axes = expr.args[0], expr.attrs.axis
        if axes is None or all(int(axis) >= 0 for axis in axes):
            return expr
        return relax.op.squeeze(data, [int(axis) % len(data.ty.shape) for axis in axes])

    return rewritten(mod, squeezed, rewrite)


@tvm.transform.module_pass(opt_level=0, name="MovedConstants")
def _moved_constants(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
    """Transposes constants at once; TVM would compile a program for each of their shapes and run it once.

    Equal calls become one, as after a rewriting by a pattern, but without hashing the constants.
    """
    moving = _MovedConstants(mod)
    moved = mutated(mod, moving)
    if not moving.turned:
        return mod
    cleaned = [relax.transform.CanonicalizeBindings(), relax.transform.EliminateCommonSubexpr()]
    bare, constants = with_lifted_constants(moved)
    return with_bound_constants(tvm.transform.Sequential([*cleaned, *cleaned])(bare), constants)


@mutator
class _MovedConstants(PyExprMutator):
    """Transposed constants in place of their transpositions."""

    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self.turned: dict[tuple[Any, ...], relax.Expr] = {}
        """Constants by address, shape and order of axes of the values before."""

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        """The transposed constant, or the call itself. PyTorch transposes in blocks, on all cores."""
        if operator_of(call) != "relax.permute_dims" or not isinstance(call.args[0], tvm.ir.GenericConst):
            return call
        values, axes = torch.from_dlpack(call.args[0].value), call.attrs.axes
        order = tuple(reversed(range(values.ndim)) if axes is None else map(int, axes))
        key = values.data_ptr(), values.dtype, values.shape, order
        if key not in self.turned:
            turned = values.permute(order).contiguous()
            self.turned[key] = relax.const(tvm.runtime.from_dlpack(turned))
        return self.turned[key]


@tvm.transform.module_pass(opt_level=0, name="OnlyWeights")
def _only_weights(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
    """Keeps constants layout-free only if a reduction reads them; a bias gains nothing."""
    changed = tvm.IRModule(mod.functions, attrs=mod.attrs)
    for var, func in mod.functions_items():
        if isinstance(func, tvm.tirx.PrimFunc):
            read = _read_by_reductions(func)
            weights = [index for index in sorted(layout_free(func)) if func.params[index] in read]
            changed[var] = with_layout_free(func, weights)
    return changed


def _read_by_reductions(func: tvm.tirx.PrimFunc) -> set[Any]:
    found: set[Any] = set()

    def visit(block: SBlock) -> None:
        if any(iterator.iter_type == IterVar.CommReduce for iterator in block.iter_vars):
            found.update(read.source for read in block.reads)

    tvm_ffi.structural_walk(func.body, (SBlock, visit))
    return found
