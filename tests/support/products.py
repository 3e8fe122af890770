"""Products of matrices in loops of any order."""

from __future__ import annotations

from foretune.compiler.tvm_compat import as_task_module
from tvm import te
from tvm.s_tir.schedule import Schedule


def matmul(n):
    a, b = te.placeholder((n, n), name="a"), te.placeholder((n, n), name="b")
    k = te.reduce_axis((0, n), name="k")
    product = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="product")
    return as_task_module(te.create_prim_func([a, b, product]))


def ordered(n, *order, tile=1, vectorise=False):
    """Matrix product of n rows and columns with loops in this order, columns in tiles."""
    schedule = Schedule(matmul(n))
    block = schedule.get_sblock("product")
    i, j, k = schedule.get_loops(block)
    outer, inner = schedule.split(j, [None, tile])
    loops = {"i": i, "j": outer, "k": k}
    schedule.reorder(*(loops[name] for name in order), inner)
    if vectorise:
        schedule.vectorize(inner)
    schedule.decompose_reduction(block, schedule.get_loops(block)[0])
    return schedule.mod
