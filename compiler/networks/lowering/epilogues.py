"""Fusion of operators into functions, with the epilogues of products or without them.

An epilogue is what follows a product element by element: a bias, an activation or a residual (Bolt, section
3.1). Without epilogues, as in the baseline of Bolt's Figure 9, the operators that follow a product are fused
into functions of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relax

PRODUCT, OPAQUE = 4, 8
"""TVM's kinds of functions: kOutEWiseFusable, with sums of products, and kOpaque, which nothing joins."""


def fused(epilogues: bool) -> Sequence[Any]:
    """Passes from operators to fused functions, those of TVM's `zero` pipeline."""
    return (
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FoldConstant(),
        *(() if epilogues else (_products_alone,)),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
    )


@tvm.transform.module_pass(opt_level=0, name="ProductsAlone")
def _products_alone(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
    """Keeps other operators out of the functions of products."""
    changed = tvm.IRModule(mod.functions, attrs=mod.attrs)
    for var, func in mod.functions_items():
        if isinstance(func, tvm.tirx.PrimFunc) and int(func.attrs.get("op_pattern", OPAQUE)) == PRODUCT:
            changed[var] = func.with_attr("op_pattern", OPAQUE)
    return changed
