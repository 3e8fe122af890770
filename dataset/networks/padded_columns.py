"""Products of two computed matrices whose columns no panel of vectors divides, with columns of zeros.

The scores of attention over 197 tokens have 197 columns, a prime number: no template fits. With 208 they are
13 vectors. The new columns are cut off where the scores are read (Bolt, section 3.2.3, pads as well). Weights
that are constants have columns that whole layers share, which seldom lack a panel.
"""

from __future__ import annotations

from collections.abc import Mapping

import tvm
from tvm import relax
from tvm.ir import GenericConst
from tvm.relax.dpl import DFPattern, is_op, wildcard
from tvm.target import Target

from ..templates.choice import MOST_VECTORS
from ..templates.instructions import target_instructions
from ..templates.template import panels
from .rewriting import rewritten
from .stored_type import WIDE

MOST = 1.1
"""Columns afterwards to those before, at most."""


def padded_columns(target: Target) -> tvm.transform.Pass:
    """Pass that gives columns of zeros to float32 products that a template of the target then fits."""

    @tvm.transform.module_pass(opt_level=0, name="PaddedColumns")
    def apply(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
        instructions = target_instructions(target, WIDE, WIDE, WIDE)
        return _padded(mod, instructions[0].lanes) if instructions else mod

    return apply


def _padded(mod: tvm.IRModule, lanes: int) -> tvm.IRModule:
    product = is_op("relax.matmul")(wildcard(), wildcard())

    def rewrite(expr: relax.Expr, _: Mapping[DFPattern, relax.Expr]) -> relax.Expr:
        data, weight = expr.args
        shape = [int(extent) for extent in weight.ty.shape]
        columns = shape[-1]
        lacking = -columns % lanes
        if (
            {str(data.ty.dtype), str(weight.ty.dtype)} != {WIDE}
            or isinstance(weight, GenericConst)
            or len(shape) < 2
            or columns + lacking > MOST * columns
            or panels(columns, lanes, MOST_VECTORS)
        ):
            return expr
        # In front: a cut of the last columns would count as element-wise, and be fused with the product.
        filled = relax.op.nn.pad(weight, [*[0] * (2 * len(shape) - 2), lacking, 0])
        every = relax.op.matmul(data, filled, out_dtype=expr.attrs.out_dtype)
        return relax.op.strided_slice(every, [len(expr.ty.shape) - 1], [lacking], [lacking + columns])

    return rewritten(mod, product, rewrite)
