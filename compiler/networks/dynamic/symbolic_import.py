"""TVM's importer for programs whose extents are symbols.

The shape of each result is PyTorch's: TVM deduces other forms of the same extents, such as the least of two
extents of which one is always less, or none. Nodes that compute with extents need no operator: PyTorch has
their expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import torch
import tvm
import tvm_ffi
from torch import fx
from torch.export import ExportedProgram
from tvm import relax, te, tirx
from tvm.sym import Analyzer
from tvm.target import Target

from ..importing.decomposing.errors import ConversionError
from ..importing.decompositions import SYMBOLIC
from ..importing.fold_constants import weights_of
from ..importing.recurrent import operator as recurrent
from ..importing.recurrent.conversion import call_of_kernel
from ..importing.torch_import import Importer
from .dynamic_inputs import DynamicInputs
from .expressions import INDEX, as_tir, variables_of
from .resizing import OF_IMAGES, RESIZING, resized
from .symbolic_export import broken_guards, removed_checks

_LEAST, _MOST = "tir_var_lower_bound", "tir_var_upper_bound"
"""Attributes of a Relax function with the ranges of its symbols, which TVM's memory plan reads."""

_WITH_NUMBERS = {
    f"{name}.{kind}"
    for name in (
        *("add", "sub", "mul", "div", "remainder", "fmod", "pow", "floor_divide"),
        *("eq", "ne", "lt", "le", "gt", "ge"),
    )
    for kind in (
        "Tensor",
        "Scalar",
        "Tensor_mode",
        "Scalar_mode",
        "Tensor_Scalar",
        "Tensor_Tensor",
        "default",
    )
}
"""Operators of a tensor and a number, which may be an extent."""


class SymbolicImporter(Importer):
    """Converts programs of `symbolic_export`.

    Args:
        dynamic: shapes of the inputs.
        target: a CPU.
        bounded: whether the memory may be planned for the ranges, so that no larger input runs.
    """

    decompositions: ClassVar[Mapping[Any, Callable[..., Any]]] = RESIZING

    def __init__(self, dynamic: DynamicInputs, target: Target, *, bounded: bool = True) -> None:
        self._dynamic, self._target, self._bounded = dynamic, target, bounded
        self._weights: Mapping[str, torch.Tensor] = {}
        self._variables: dict[str, tirx.Var] = {}
        self._inputs: list[relax.Var] = []
        self._analyzer = Analyzer()
        super().__init__()

    def create_convert_map(self) -> dict[str, Callable[..., Any]]:
        """TVM's conversions, with those of operators that it converts for fixed extents alone."""
        converts = super().create_convert_map()
        own = {
            "arange.start_step": self._positions,
            "cumsum.default": self._running_sum,
            "expand.default": self._expanded,
            "full.default": self._filled,
            "full_like.default": self._filled,
            "scalar_tensor.default": self._number,
            "select.int": self._selected,
            "slice.Tensor": self._sliced,
            "view.default": self._viewed,
            **{resize.__name__: self._resized for resize in OF_IMAGES},
        }
        for name, convert in own.items():
            converts[name] = _where_symbolic(convert, converts[name])
        converts[recurrent.NAME] = self._recurrent
        return {name: self._with_shape(convert) for name, convert in converts.items()}

    def from_exported_program(self, exported_program: ExportedProgram, **options: Any) -> tvm.IRModule:
        """The Relax module; the ranges of the symbols are attributes of its function."""
        if broken := broken_guards(exported_program, removed_checks(exported_program)):
            raise ConversionError(f"one of its operators works only for sizes with {broken[0]}")
        self._weights = weights_of(exported_program)
        self._variables = variables_of(exported_program, self._dynamic)
        for node in exported_program.graph.nodes:
            if node.op == "call_function" and isinstance(node.meta.get("val"), SYMBOLIC):
                self.convert_map.setdefault(node.target.__name__, self._with_shape(self._refused))
        for variable in self._variables.values():
            symbol = self._dynamic.symbols[variable.name]
            self._analyzer.bind(variable, tvm.ir.Range(symbol.low, symbol.high + 1))
        mod = super().from_exported_program(exported_program, **options)
        main = mod["main"]
        for attribute in (_LEAST, _MOST):
            main = main.without_attr(attribute)
        symbols = self._dynamic.symbols.values()
        main = main.with_attr(_LEAST, {symbol.name: symbol.low for symbol in symbols})
        if self._bounded:
            main = main.with_attr(_MOST, {symbol.name: symbol.high for symbol in symbols})
        mod["main"] = main
        return mod

    def create_input_vars(self, exported_program: ExportedProgram) -> Any:
        """TVM's hook for the parameters of the Relax function."""
        found = super().create_input_vars(exported_program)
        self._inputs = list(found[1].values())
        return found

    def _process_derived_symbol(self, symbol: Any, _: Any) -> tuple[str, Any]:
        """TVM's hook for the extents of inputs."""
        return str(symbol), self._in_tvm(symbol)

    def _with_shape(self, convert: Callable[[fx.Node], Any]) -> Callable[[fx.Node], Any]:
        """The conversion, whose result has PyTorch's extents, and the expression of a number."""

        def converted(node: fx.Node) -> Any:
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt | torch.SymFloat):
                return self._in_tvm(value.node.expr)
            found = self._converted(convert, node)
            if isinstance(value, torch.Tensor) and isinstance(getattr(found, "ty", None), relax.TensorType):
                return self._shaped(found, self._shape(node))
            return found

        return converted

    def _converted(self, convert: Callable[[fx.Node], Any], node: fx.Node) -> Any:
        """The conversion of a node; numbers that operators compute with are tensors while it runs."""
        if getattr(node.target, "__name__", "") not in _WITH_NUMBERS:
            return convert(node)
        numbers = [one for one in node.all_input_nodes if isinstance(one.meta.get("val"), SYMBOLIC)]
        expressions = {number: self.env[number] for number in numbers}
        tensor = next(
            (one for one in node.all_input_nodes if isinstance(one.meta.get("val"), torch.Tensor)), node
        )
        for number, expression in expressions.items():
            self.env[number] = self._scalar(expression, self._operand_type(tensor, number))
        try:
            return convert(node)
        finally:
            self.env.update(expressions)

    def _operand_type(self, tensor: fx.Node, number: fx.Node) -> str:
        """Data type in which PyTorch computes with a tensor and a number."""
        like = 1.0 if isinstance(number.meta["val"], torch.SymFloat) else 1
        return _name(torch.result_type(tensor.meta["val"], like))

    def _shaped(self, found: relax.Expr, shape: Sequence[Any]) -> relax.Expr:
        """The tensor with extents in PyTorch's form. Raises ConversionError if they differ."""
        own = found.ty.shape
        if own is None:
            return self.block_builder.match_cast(found, relax.TensorType(shape, found.ty.dtype))
        extents = list(own.values if isinstance(own, relax.ShapeExpr) else own)
        if len(extents) == len(shape):
            if all(tvm_ffi.structural_equal(one, other) for one, other in zip(extents, shape, strict=True)):
                return found
            if all(map(self._analyzer.can_prove_equal, extents, shape)):
                return self.block_builder.match_cast(found, relax.TensorType(shape, found.ty.dtype))
        raise ConversionError(f"TVM's importer makes the shape {extents} in place of {list(shape)}")

    def _in_tvm(self, expression: Any) -> Any:
        """An expression of PyTorch in TVM's own form: its fusion compares extents term by term."""
        return Analyzer().simplify(as_tir(expression, self._variables))

    def extents(self, shape: Sequence[Any]) -> list[Any]:
        """Extents of PyTorch in TVM."""
        return [
            self._in_tvm(one.node.expr) if isinstance(one, torch.SymInt) else tirx.IntImm(INDEX, one)
            for one in shape
        ]

    def _shape(self, node: fx.Node) -> list[Any]:
        """Extents of a node's tensor."""
        return self.extents(node.meta["val"].shape)

    def _value(self, argument: Any) -> Any:
        """An argument that is a number, or the expression of one."""
        return self.env[argument] if isinstance(argument, fx.Node) else argument

    def _computed(self, name: str, compute: Callable[..., te.Tensor], *arguments: Any) -> relax.Var:
        """The result of a new TIR function.

        `compute` gets each tensor, shape and number of `arguments` in terms of the function's own symbols.
        """
        given = [relax.ShapeExpr(one) if isinstance(one, list) else one for one in arguments]
        return self.block_builder.emit_te(compute, *given, primfunc_name_hint=name)

    def _scalar(self, expression: Any, dtype: str) -> relax.Var:
        """A tensor without axes that holds a number.

        Its function gets an input whose shape has the symbols: TVM does not fuse functions of numbers.
        """
        wanted = set(tirx.analysis.undefined_vars(expression)) if tvm.ir.is_prim_expr(expression) else set()
        known = [one for one in self._inputs if wanted.intersection(one.ty.shape.values)]

        def compute(*arguments: Any) -> te.Tensor:
            return te.compute((), lambda: tirx.Cast(dtype, arguments[-1]))

        return self._computed("extent", compute, *known, expression)

    def _refused(self, node: fx.Node) -> Any:
        raise ConversionError(f"TVM has no conditions on extents, such as {node.target}")

    def _recurrent(self, node: fx.Node) -> relax.Var:
        return call_of_kernel(node, self, self._weights, self._target)

    def _positions(self, node: fx.Node) -> relax.Var:
        """Numbers from a start on, with a step."""
        start, step = (self._value(one) for one in (node.args[0], [*node.args, 1, 1][2]))
        dtype = _name(node.meta["val"].dtype)

        def compute(shape: list[Any], first: Any, step: Any) -> te.Tensor:
            return te.compute(shape, lambda i: tirx.Cast(dtype, first + i * step))

        return self._computed("positions", compute, self._shape(node), start, step)

    def _number(self, node: fx.Node) -> relax.Var:
        return self._scalar(self._value(node.args[0]), _name(node.meta["val"].dtype))

    def _filled(self, node: fx.Node) -> relax.Var:
        """A tensor of one number, or the extents of another tensor."""
        dtype = _name(node.meta["val"].dtype)

        def compute(shape: list[Any], value: Any) -> te.Tensor:
            number = tirx.const(value, dtype) if isinstance(value, int | float) else tirx.Cast(dtype, value)
            return te.compute(shape, lambda *_: number)

        return self._computed("fill", compute, self._shape(node), self._value(node.args[1]))

    def _expanded(self, node: fx.Node) -> relax.Var:
        return self.block_builder.emit(relax.op.broadcast_to(self.env[node.args[0]], self._shape(node)))

    def _viewed(self, node: fx.Node) -> relax.Var:
        return self.block_builder.emit(relax.op.reshape(self.env[node.args[0]], self._shape(node)))

    def _resized(self, node: fx.Node) -> relax.Var:
        """An image of another height and width."""
        height_and_width = relax.ShapeExpr(self._shape(node)[2:])
        return self.block_builder.emit(resized(node, self.env[node.args[0]], height_and_width))

    def _selected(self, node: fx.Node) -> relax.Var:
        """One position of an axis."""
        arguments: Any = node.args
        data, axis, index = arguments
        axis %= len(data.meta["val"].shape)
        place = self._from_front(self._value(index), self._shape(data)[axis])

        def compute(x: te.Tensor, shape: list[Any], place: Any) -> te.Tensor:
            return te.compute(shape, lambda *i: x(*i[:axis], place, *i[axis:]))

        return self._computed("select", compute, self.env[data], self._shape(node), place)

    def _sliced(self, node: fx.Node) -> relax.Var:
        """Every step-th position of an axis from a start on; PyTorch has the number of positions."""
        arguments: list[Any] = [*node.args, *(None, 0, None, None, 1)[len(node.args) :]]
        data, axis, start, _, step = arguments
        axis %= len(data.meta["val"].shape)
        extent = self._shape(data)[axis]
        if not start and step == 1 and tvm_ffi.structural_equal(extent, self._shape(node)[axis]):
            return self.env[data]
        first = self._from_front(self._value(start or 0), extent)

        def compute(x: te.Tensor, shape: list[Any], first: Any) -> te.Tensor:
            return te.compute(shape, lambda *i: x(*i[:axis], first + i[axis] * step, *i[axis + 1 :]))

        return self._computed("slice", compute, self.env[data], self._shape(node), first)

    def _from_front(self, position: Any, extent: Any) -> Any:
        """A position of an axis, which is counted from the end if it is negative."""
        position = tirx.IntImm(INDEX, position) if isinstance(position, int) else position
        if self._analyzer.can_prove(position >= 0):
            return self._analyzer.simplify(position)
        counted = self._analyzer.simplify(position + extent)
        if self._analyzer.can_prove(position < 0):
            return counted
        return tirx.Select(position < 0, counted, position)

    def _running_sum(self, node: fx.Node) -> relax.Var:
        """Sums up to each position of an axis.

        They take quadratic time: masks and position numbers have few elements.
        """
        arguments: Any = node.args
        data, axis = arguments[0], arguments[1] % len(node.meta["val"].shape)
        dtype = _name(node.meta["val"].dtype)

        def compute(x: te.Tensor) -> te.Tensor:
            k = te.reduce_axis((0, x.shape[axis]), "k")

            def up_to(*i: Any) -> Any:
                own = tirx.Cast(dtype, x(*i[:axis], k, *i[axis + 1 :]))
                return te.sum(tirx.Select(k <= i[axis], own, tirx.const(0, dtype)), k)

            return te.compute(x.shape, up_to)

        return self._computed("running_sum", compute, self.env[data])


def _where_symbolic(
    own: Callable[[fx.Node], Any], other: Callable[[fx.Node], Any]
) -> Callable[[fx.Node], Any]:
    """Converts nodes with symbols in their results or arguments by `own`, and the rest by `other`."""

    def convert(node: fx.Node) -> Any:
        values = [node.meta.get("val"), *(one.meta.get("val") for one in node.all_input_nodes)]
        return own(node) if any(map(_is_symbolic, values)) else other(node)

    return convert


def _is_symbolic(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return any(not isinstance(extent, int) for extent in value.shape)
    return isinstance(value, SYMBOLIC)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
