"""Families of kernels for the symbolic tasks of a network, and a choice between them at run time.

A task of symbolic extents becomes one function that chooses a kernel by size: a few comparisons, and nothing
to allocate. Constant weights are packed once, for all kernels and sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import tvm
from tvm import relax
from tvm.ir import GenericConst
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.target import Target
from tvm.tirx import PrimFunc
from tvm.tirx.buffer import is_buffer_var

from .....errors import UserError
from ....tvm_compat import bound_symbols, called_function, relax_bindings
from ..contraction import variables_of
from .expected_sizes import Counts, expected_values
from .measured_kernels import Measure
from .nodes import fixed, is_scheduled, number, scheduled_function, with_values
from .panels import panels_of
from .prediction import Machine
from .product_family import FamilyTable, ProductFamily, parameters, product_family
from .row_kernel import row_kernel
from .row_task import read_row_task
from .symbolic_product import Weight, read_symbolic_product
from .windows.window_body import window_body
from .windows.window_task import read_windows
from .winograd.winograd_choice import WinogradUse
from .winograd.winograd_family import WinogradFamily, winograd_family

Range = tuple[int, int]
"""Smallest and largest size."""

_DROPPED = ("layout_free_buffers", "op_pattern")


class SizeRangeError(UserError, ValueError):
    """A symbolic size has no range, or an empty one."""


@dataclass(frozen=True)
class FamilyTask:
    """One symbolic task, and how it runs."""

    name: str
    kind: str
    """`product`, `windows`, `rows`, `attention`, or `plain` for a function that stays as TVM made it."""
    size: str = ""
    """Expression that the tables choose by."""
    tables: tuple[FamilyTable, ...] = ()
    winograd: WinogradUse | None = None
    """Kernel of Winograd's algorithm, which runs in place of those of the tables at some sizes."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, eq=False)
class WithFamilies:
    """A module whose symbolic functions are right and fast at all sizes in range."""

    module: tvm.IRModule
    tasks: tuple[FamilyTask, ...]


def with_families(
    module: tvm.IRModule,
    ranges: Mapping[str, Range],
    target: Target,
    counts: Mapping[str, Counts] | None = None,
    measure: Measure | None = None,
    winograd: Sequence[int] = (),
) -> WithFamilies:
    """The module with a family of kernels for each symbolic task.

    Args:
        module: fused TIR functions and Relax functions that call them, with weights as constants.
        ranges: smallest and largest size by name of the symbolic variable of a Relax function. Kernels are
            wrong at other sizes, which the caller has to refuse.
        target: a CPU.
        counts: how often each size is expected, by name; the kernels are chosen for these above all.
        measure: times kernels of products at a few sizes, which corrects the predictions.
        winograd: tile sizes of Winograd's algorithm that 3x3 convolutions may take.

    Functions that are scheduled or have no symbolic extents stay unchanged, as do reshapes, which TVM turns
    into views. Raises SizeRangeError.
    """
    sites = _call_sites(module, ranges, counts or {})
    machine = Machine.of(target)
    made: dict[str, _Made] = {}
    for var, func in module.functions_items():
        name = var.name_hint
        if isinstance(func, PrimFunc) and name in sites and not is_scheduled(func) and _is_symbolic(func):
            made[name] = _made(name, func, sites[name], machine, measure, winograd)
    changed = _WithKernels(module, made).module()
    return WithFamilies(changed, tuple(one.task for one in made.values()))


@dataclass(frozen=True, eq=False)
class _Site:
    """Ranges and constants that all calls of a function have in common."""

    ranges: Mapping[Any, Range]
    """By symbolic variable of the function."""
    counts: Mapping[Any, Counts]
    """How often each size is expected, by symbolic variable, if that is known."""
    constants: Mapping[int, tuple[GenericConst, ...]]
    """Constants of all calls, by parameters that are constants at each call."""


@dataclass(frozen=True, eq=False)
class _Made:
    """A function with its description, and the families whose weights are packed."""

    func: PrimFunc
    task: FamilyTask
    family: ProductFamily | None = None
    winograd: WinogradFamily | None = None


def _is_symbolic(func: PrimFunc) -> bool:
    return not relax.analysis.has_reshape_pattern(func) and any(
        fixed(extent) is None for param in func.params if is_buffer_var(param) for extent in param.shape
    )


def _call_sites(
    module: tvm.IRModule, ranges: Mapping[str, Range], counts: Mapping[str, Counts]
) -> dict[str, _Site]:
    found: dict[str, _Site] = {}
    for relax_func in module.functions.values():
        if not isinstance(relax_func, relax.Function):
            continue
        for _, value in relax_bindings(relax_func):
            name = called_function(value)
            if name is None or not isinstance(module[name], PrimFunc):
                continue
            site = _site(module[name], value, ranges, counts)
            found[name] = _merged(found[name], site) if name in found else site
    return found


def _site(
    func: PrimFunc, call: relax.Call, ranges: Mapping[str, Range], counts: Mapping[str, Counts]
) -> _Site:
    symbols = bound_symbols(func, call)
    arguments = call.args[1].fields
    constants = {at: (one,) for at, one in enumerate(arguments) if isinstance(one, GenericConst)}
    expected = {
        var: expected_values(size, counts, lambda one: _range(one, ranges)) for var, size in symbols.items()
    }
    known = {var: found for var, found in expected.items() if found}
    return _Site({var: _range(size, ranges) for var, size in symbols.items()}, known, constants)


def _range(size: Any, ranges: Mapping[str, Range]) -> Range:
    """Smallest and largest value of an expression that grows with each of its variables."""
    variables = variables_of([number(size)])
    missing = sorted(var.name for var in variables if var.name not in ranges)
    if missing:
        raise SizeRangeError(
            f"ranges: size {missing[0]} has none; pass its smallest and largest value, as in "
            f'{{"{missing[0]}": (1, 512)}}'
        )
    ends = []
    for end in (0, 1):
        value = fixed(with_values(number(size), {var: ranges[var.name][end] for var in variables}))
        assert value is not None
        ends.append(value)
    if not 1 <= ends[0] <= ends[1]:
        raise SizeRangeError(f"ranges: {size} is from {ends[0]} to {ends[1]}; use 1 <= smallest <= largest")
    return ends[0], ends[1]


def _merged(one: _Site, other: _Site) -> _Site:
    ranges = {
        var: (min(low, other.ranges[var][0]), max(high, other.ranges[var][1]))
        for var, (low, high) in one.ranges.items()
    }
    counts = {var: dict(found) for var, found in one.counts.items()}
    for var, found in other.counts.items():
        known = counts.setdefault(var, {})
        for size, count in found.items():
            known[size] = known.get(size, 0.0) + count
    constants = {
        index: (*one.constants[index], *found)
        for index, found in other.constants.items()
        if index in one.constants
    }
    return _Site(ranges, counts, constants)


def _made(
    name: str,
    func: PrimFunc,
    site: _Site,
    machine: Machine,
    measure: Measure | None,
    tiles: Sequence[int],
) -> _Made:
    def ends(size: Any) -> Range:
        return _range(size, {var.name: found for var, found in site.ranges.items()})

    product = read_symbolic_product(func, frozenset(site.constants))
    if product is not None:
        counts = {var.name: found for var, found in site.counts.items()}
        family = product_family(product, ends, machine, counts, measure)
        params, body, use = parameters(product, family.packed), family.body, None
        weights = [] if product.parameter is None else site.constants[product.parameter]
        arrays = [one.value.numpy() for one in weights]
        winograd = winograd_family(family, arrays, tiles, ends, machine, measure)
        if winograd is not None and product.parameter is not None:
            params.insert(product.parameter + 1, winograd.panels)
            body, use = winograd.body, winograd.use
        task = FamilyTask(name, "product", str(family.size), family.tables, use)
        return _Made(_finished(func, params, body), task, family, winograd)
    rows = read_row_task(func)
    body = None if rows is None else row_kernel(rows, lambda extent: ends(extent)[1])
    windows = read_windows(func)
    if windows is not None and (found := window_body(windows, machine, ends, body)) is not None:
        return _Made(_finished(func, list(func.params), found), FamilyTask(name, "windows"))
    if body is None:
        return _Made(func, FamilyTask(name, "plain"))
    return _Made(_finished(func, list(func.params), body), FamilyTask(name, "rows"))


def _finished(func: PrimFunc, params: list[Any], body: Any) -> PrimFunc:
    made = scheduled_function(params, body)
    for key, value in (func.attrs or {}).items():
        if key not in _DROPPED:
            made = made.with_attr(key, value)
    return made


@mutator
class _WithKernels(PyExprMutator):
    """Calls the functions of families, with the panels of constant weights."""

    def __init__(self, module: tvm.IRModule, made: Mapping[str, _Made]) -> None:
        kept = {var: func for var, func in module.functions_items() if var.name_hint not in made}
        super().__init__(tvm.IRModule(kept, attrs=module.attrs))
        self._made = made
        self._vars = {name: self.builder_.add_func(one.func, name) for name, one in made.items()}
        self._panels: dict[tuple[Any, ...], tuple[Any, relax.Expr]] = {}

    def module(self) -> tvm.IRModule:
        """The module with all Relax functions rewritten."""
        for var, func in self.builder_.get().functions_items():
            if isinstance(func, relax.Function):
                self.builder_.update_func(var, self.visit_expr(func))
        return self.builder_.get()

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        """The call of the new function."""
        name = called_function(call) or ""
        if name not in self._made:
            return call
        arguments = list(call.args[1].fields)
        family = self._made[name].family
        index = None if family is None else family.product.parameter
        if family is not None and index is not None and family.product.layout is Weight.PACKED:
            arguments[index : index + 1] = self._packed(arguments[index], self._made[name])
        return relax.Call(
            call.op, [self._vars[name], relax.Tuple(arguments)], call.attrs, call.ty_args, call.span
        )

    def _packed(self, weight: GenericConst, made: _Made) -> list[relax.Expr]:
        """The weight in panels, and transformed ones if Winograd's algorithm takes part."""
        family, winograd = made.family, made.winograd
        assert family is not None
        layout = family.layout_key
        packed = partial(panels_of, task=family.product, width=family.width, step=family.step)
        found = [self._once(weight, layout, packed)]
        if winograd is not None:
            found.append(self._once(weight, (winograd.layout_key, *layout), winograd.panels_of))
        return found

    def _once(self, weight: GenericConst, layout: Any, panels: Callable[[Any], Any]) -> relax.Expr:
        """Panels of a weight as a constant, the same one for all calls."""
        values = weight.value.numpy()
        key = (values.ctypes.data, values.shape, layout)
        if key not in self._panels:
            made = panels(values)
            constant = relax.const(made, str(made.dtype))
            self._panels[key] = values, constant  # an array that is kept keeps its address
        return self._panels[key][1]
