"""Modules without their constants: TVM hashes, compares and stores constants wherever it meets them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

MAIN = "main"


def with_lifted_constants(mod: tvm.IRModule) -> tuple[tvm.IRModule, list[tvm.runtime.Tensor]]:
    """The module with further parameters of `main` in place of its constant tensors, and these tensors."""
    lift, main = _Lift(mod), mod[MAIN]
    body = lift.visit_expr(main.body)
    bare = tvm.IRModule(mod.functions, attrs=mod.attrs)
    bare[MAIN] = relax.Function([*main.params, *lift.params], body, main.ret_ty, main.is_pure, main.attrs)
    return bare, [constant.value for constant in lift.constants]


def with_bound_constants(bare: tvm.IRModule, constants: Sequence[Any]) -> tvm.IRModule:
    """Inverse of `with_lifted_constants`, for tensors of TVM, or arrays, which are copied."""
    params = bare[MAIN].params[-len(constants) :] if constants else []
    return relax.transform.BindParams(MAIN, dict(zip(params, constants, strict=True)))(bare)


@mutator
class _Lift(PyExprMutator):
    """Replaces constants by parameters."""

    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self.constants: list[tvm.ir.GenericConst] = []
        self.params: list[relax.Var] = []

    def visit_generic_const_(self, constant: tvm.ir.GenericConst) -> relax.Expr:
        """The parameter in place of a tensor; other constants stay."""
        if not isinstance(constant.ty, relax.TensorType):
            return constant
        for known, param in zip(self.constants, self.params, strict=True):
            if known.same_as(constant):
                return param
        self.constants.append(constant)
        self.params.append(relax.Var(f"constant_{len(self.params)}", constant.ty))
        return self.params[-1]
