"""Predicted time of a network's products at any sizes, with the kernels that a run would choose."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.ir import GenericConst
from tvm.target import Target
from tvm.tirx import PrimFunc

from ...templates.cpu.dynamic.families import with_families
from ...templates.cpu.dynamic.kernel_parameters import KernelParameters
from ...templates.cpu.dynamic.nodes import fixed, number, with_values
from ...templates.cpu.dynamic.prediction import Machine, ProductSize, cycles
from ...templates.cpu.dynamic.product_family import FamilyTable
from ...templates.cpu.dynamic.symbolic_product import read_symbolic_product
from ...tvm_compat import bound_symbols, called_function, relax_bindings
from .dynamic_inputs import DynamicInputs, Sizes


@dataclass(frozen=True)
class ProductCost:
    """One product at some sizes."""

    task: str
    cycles: float
    """Predicted cycles of all of its calls."""
    kernel: KernelParameters
    size: ProductSize
    """Extents of one call."""


@dataclass(frozen=True, eq=False)
class _Product:
    """Calls of one function with equal extents."""

    task: str
    calls: int
    parts: tuple[Any, ...]
    """Extents in the order of `ProductSize`, in terms of the network's symbols."""
    tables: Sequence[FamilyTable]

    @cached_property
    def variables(self) -> dict[str, Any]:
        found = [var for part in self.parts for var in tirx.analysis.undefined_vars(number(part))]
        return {var.name: var for var in found}

    def at(self, sizes: Sizes) -> ProductSize:
        """Extents for values of the symbols."""
        values = {var: sizes[name] for name, var in self.variables.items()}
        extents = [fixed(with_values(number(part), values)) for part in self.parts]
        assert None not in extents
        return ProductSize(*(extent or 0 for extent in extents))

    def kernel(self, size: ProductSize) -> KernelParameters:
        """The kernel that runs at these extents."""
        table = max(
            (one for one in self.tables if one.least_columns <= size.columns),
            key=lambda one: one.least_columns,
            default=self.tables[0],
        )
        # The tables choose by the first extent with a symbol.
        values = astuple(size)
        key = next((value for part, value in zip(self.parts, values, strict=True) if fixed(part) is None), 1)
        return table.members[table.chosen[bisect_right(table.breakpoints, key)]]


class ProductCosts:
    """Costs of a network's products; convolutions count with their direct kernels.

    Args:
        fused: the module of `to_symbolic_relax`.
        dynamic: ranges of the symbols.
        target: a CPU.

    Raises SizeRangeError.
    """

    def __init__(self, fused: tvm.IRModule, dynamic: DynamicInputs, target: Target) -> None:
        made = with_families(fused, dynamic.ranges, target, dynamic.counts)
        tables = {task.name: task.tables for task in made.tasks}
        self._machine = Machine.of(target)
        self._products = _products(fused, {name: of for name, of in tables.items() if of})

    def __len__(self) -> int:
        return len(self._products)

    def at(self, sizes: Sizes) -> list[ProductCost]:
        """Each product for values of the symbols."""
        found = []
        for one in self._products:
            size = one.at(sizes)
            kernel = one.kernel(size)
            found.append(ProductCost(one.task, one.calls * cycles(kernel, size, self._machine), kernel, size))
        return found


def _products(fused: tvm.IRModule, tables: Mapping[str, Sequence[FamilyTable]]) -> list[_Product]:
    found: dict[tuple[str, ...], _Product] = {}
    for _, value in relax_bindings(fused["main"]):
        name = called_function(value)
        if name is None or name not in tables:
            continue
        parts = _parts(fused[name], value)
        key = (name, *map(str, parts))
        calls = found[key].calls + 1 if key in found else 1
        found[key] = _Product(name, calls, parts, tables[name])
    return list(found.values())


def _parts(func: PrimFunc, call: relax.Call) -> tuple[Any, ...]:
    """Extents of a call in the order of `ProductSize`, in terms of the symbols of its caller."""
    arguments = list(call.args[1].fields)
    constants = {place for place, argument in enumerate(arguments) if isinstance(argument, GenericConst)}
    product = read_symbolic_product(func, frozenset(constants))
    assert product is not None
    symbols = bound_symbols(func, call)
    return tuple(with_values(number(part), symbols) for part in product.parts)
