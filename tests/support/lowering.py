"""Partial lowering of a scheduled program, up to loop unrolling."""

from __future__ import annotations

import tvm


def unrolled(mod: tvm.IRModule) -> tvm.IRModule:
    """Lower, vectorise and unroll a program without simplifying it afterwards."""
    return tvm.transform.Sequential(
        [
            tvm.s_tir.transform.LowerInitBlock(),
            tvm.s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
            tvm.s_tir.transform.ConvertBlocksToOpaque(),
            tvm.s_tir.transform.LowerOpaqueBlock(),
            tvm.tirx.transform.FlattenBuffer(),
            tvm.tirx.transform.StmtSimplify(),
            tvm.tirx.transform.VectorizeLoop(),
            tvm.tirx.transform.UnrollLoop(),
        ]
    )(mod)
