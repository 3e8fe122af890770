"""Symbolic functions, their kernels compiled for this machine, and calls of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import tvm
from foretune.compiler.codegen.compilation import compile_module
from foretune.compiler.templates.cpu.dynamic.families import WithFamilies, with_families
from foretune.compiler.templates.cpu.dynamic.kernel_parameters import KernelParameters
from foretune.compiler.templates.cpu.dynamic.measured_kernels import Measure
from foretune.compiler.templates.cpu.dynamic.nodes import scheduled_function
from foretune.compiler.templates.cpu.dynamic.panels import packed_shape, panels_of
from foretune.compiler.templates.cpu.dynamic.product_family import parameters
from foretune.compiler.templates.cpu.dynamic.product_kernel import product_kernel
from foretune.compiler.templates.cpu.dynamic.symbolic_product import Weight, read_symbolic_product
from foretune.compiler.types import numpy_type
from numpy.typing import NDArray
from tvm import relax, te, tirx

from tests.support.cpus import cpu, widest

Array = NDArray[Any]

TARGET = widest(cpu("x86-64-v4"), cpu("x86-64-v3"))


PAIRS = cpu("cooperlake")
"""CPU with products of bfloat16 in pairs, but without tiles."""

NARROW = numpy_type("bfloat16")


def random(*shape: int) -> Array:
    """Normally distributed numbers, the same in each call."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def symbol(name: str) -> tirx.Var:
    """A symbolic size."""
    return tirx.Var(name, "int64")


def whole(*shape: int) -> Array:
    """Random integers in bfloat16 that are exact there, as are their products and sums in float32."""
    return np.random.default_rng(sum(shape)).integers(-8, 9, shape).astype(NARROW)


def tensor(name: str, *shape: Any, dtype: str = "float32") -> te.Tensor:
    return te.placeholder(
        [tirx.const(one, "int64") if isinstance(one, int) else one for one in shape], dtype, name=name
    )


def narrow(name: str, *shape: Any) -> te.Tensor:
    """A tensor in bfloat16."""
    return tensor(name, *shape, dtype=str(NARROW))


def product(left: te.Tensor, right: te.Tensor, *, turned: bool = False) -> te.Tensor:
    """[..., m, k] x [..., k, n], or x [..., n, k] if `turned`; the right one may have no batch."""
    k = te.reduce_axis((0, left.shape[-1]), name="k")
    shape = [*left.shape[:-1], right.shape[-2 if turned else -1]]

    def element(*at: Any) -> Any:
        *batch, _ = at[:-1] if len(right.shape) > 2 else (None,)
        matrix = (at[-1], k) if turned else (k, at[-1])
        factors = left(*at[:-1], k), right(*batch, *matrix)
        one, other = (factor.astype("float32") for factor in factors)
        return te.sum(one * other, axis=k)

    return te.compute(shape, element, name="matmul")


def compiled_members(
    tensors: Sequence[te.Tensor],
    weight: Array,
    members: Sequence[KernelParameters],
    target: tvm.target.Target = TARGET,
) -> list[Callable[[Array], Array]]:
    """Functions of the data that multiply it by the weight, one for each kernel of equal width.

    `tensors` are data [rows, depth], weight [depth, columns], and their product.
    """
    func = te.create_prim_func(tensors, index_dtype_override="int64")
    task = read_symbolic_product(func, frozenset({1}))
    assert task is not None and task.layout is Weight.PACKED
    width, step = members[0].width, members[0].step
    packed = tirx.decl_buffer(packed_shape(task, width, step), str(weight.dtype), "packed")
    params = parameters(task, packed)
    functions = {
        f"kernel_{index}": scheduled_function(params, product_kernel(task, member, packed)).with_attr(
            "global_symbol", f"kernel_{index}"
        )
        for index, member in enumerate(members)
    }
    module = compile_module(tvm.IRModule(functions), target)
    panels = tvm.runtime.tensor(panels_of(weight, task, width, step))

    def run(name: str, data: Array) -> Array:
        result = tvm.runtime.tensor(np.full((len(data), weight.shape[1]), np.nan, np.float32))
        module[name](tvm.runtime.tensor(data), panels, result)
        return np.asarray(result.numpy())

    return [partial(run, name) for name in functions]


class Network:
    """A Relax function that calls one symbolic function, with kernels for all its sizes."""

    def __init__(
        self,
        tensors: Sequence[te.Tensor],
        ranges: Mapping[str, tuple[int, int]],
        constants: Mapping[int, Array] | None = None,
        target: tvm.target.Target = TARGET,
        counts: Mapping[str, Mapping[int, float]] | None = None,
        measure: Measure | None = None,
        winograd: Sequence[int] = (),
    ) -> None:
        func = te.create_prim_func(tensors, index_dtype_override="int64")
        constants = constants or {}
        builder = relax.BlockBuilder()
        *inputs, output = tensors
        given = {
            index: relax.Var(one.op.name, relax.TensorType(one.shape, one.dtype))
            for index, one in enumerate(inputs)
            if index not in constants
        }
        with builder.function("main", list(given.values())):
            var = builder.add_func(func.without_attr("global_symbol"), "task")
            arguments = [
                given[index] if index in given else relax.const(constants[index], str(constants[index].dtype))
                for index in range(len(inputs))
            ]
            call = relax.call_tir(var, arguments, relax.TensorType(output.shape, output.dtype))
            builder.emit_func_output(builder.emit(call))
        self.target = target
        self.made: WithFamilies = with_families(builder.get(), ranges, target, counts, measure, winograd)

    @property
    def kind(self) -> str:
        (task,) = self.made.tasks
        return task.kind

    def compiled(self) -> Callable[..., Array]:
        """The function on NumPy arrays."""
        machine = relax.VirtualMachine(compile_module(self.made.module, self.target), tvm.cpu())

        def run(*arrays: Array) -> Array:
            return np.asarray(machine["main"](*map(tvm.runtime.tensor, arrays)).numpy())

        return run
