"""Averages of channels within depthwise convolutions: a partial reduction as their epilogue.

Squeeze-and-excitation layers average each channel of an image that a depthwise convolution has just stored,
which takes up to a sixth of the convolution's time. The template of depthwise convolutions sums the channels
of a register tile while they are in registers (Bolt, section 3.1), which is nearly free.
"""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ...templates.cpu.depthwise import read_depthwise
from ...tvm_compat import as_task_module
from ..alternatives.alternatives import CALL_TIR
from .fused_function import fused_function
from .rewriting import has_fixed_shape, mutated


@tvm.transform.module_pass(opt_level=0, name="PooledImages")
def pooled_images(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
    """Pass over fused TIR functions and the Relax functions that call them."""
    return mutated(mod, _PooledImages(mod))


@mutator
class _PooledImages(PyExprMutator):
    """Computes an image and the average of its channels by one call."""

    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self._mod = mod
        self._pooled_by: dict[relax.Var, tuple[relax.Var, tvm.ir.GlobalVar]] = {}
        """Variable of the average, and the function of both, by variable of the image."""
        self._computed: dict[relax.Var, relax.Var] = {}
        """Image and average by variable of the average."""
        self._functions: dict[tuple[str, str], tvm.ir.GlobalVar | None] = {}
        """Functions of both, by the names of the replaced ones; None if no template computes both."""

    def visit_dataflow_block_(self, block: relax.DataflowBlock) -> relax.DataflowBlock:
        """Finds averages whose image is computed in the same block."""
        calls: dict[relax.Var, relax.Call] = {}
        for binding in block.bindings:
            call = getattr(binding, "value", None)
            if not isinstance(call, relax.Call) or not call.op.same_as(CALL_TIR):
                continue
            if not isinstance(call.args[1], relax.Tuple):
                continue
            calls[binding.var] = call
            arguments = call.args[1].fields
            image = arguments[0] if len(arguments) == 1 else None
            if image in calls and image not in self._pooled_by and has_fixed_shape(image):
                both = self._function(calls[image].args[0], call.args[0])
                if both is not None:
                    self._pooled_by[image] = binding.var, both
        return super().visit_dataflow_block_(block)

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        """Binds an image to the first result of the function of both, and its average to the second."""
        if binding.var in self._computed:
            value = relax.TupleGetItem(self._computed[binding.var], 1)
        elif binding.var in self._pooled_by:
            average, function = self._pooled_by[binding.var]
            arguments = [self.visit_expr(argument) for argument in binding.value.args[1].fields]
            kinds = [binding.var.ty, average.ty]
            both = self.builder_.emit(relax.call_tir(function, arguments, kinds))
            self._computed[average] = both
            value = relax.TupleGetItem(both, 0)
        else:
            super().visit_var_binding_(binding)
            return
        self.builder_.emit_normalized(relax.VarBinding(binding.var, value))

    def _function(self, image: tvm.ir.GlobalVar, average: tvm.ir.GlobalVar) -> tvm.ir.GlobalVar | None:
        names = image.name_hint, average.name_hint
        if names not in self._functions:
            parts = self._mod[image], self._mod[average]
            self._functions[names] = None
            if read_depthwise(as_task_module(parts[0])) is not None:
                both = fused_function(parts, [0], store=True)
                task = read_depthwise(as_task_module(both))
                if task is not None and task.pooling is not None:
                    self._functions[names] = self.builder_.add_func(both, "_".join(names))
        return self._functions[names]
