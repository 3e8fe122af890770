"""What TVM makes of a scheduled program before code is generated from it."""

from __future__ import annotations

import tvm


def unrolled(mod: tvm.IRModule) -> tvm.IRModule:
    """The program lowered, vectorised and unrolled, but not simplified after that."""
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
