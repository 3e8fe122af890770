"""Resizing of images of symbolic extents, which TVM computes for fixed extents alone.

Each axis is resized on its own, the last one first: an image that grows is then read in whole vectors where
most of its elements are computed. Coordinates are PyTorch's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, te, tirx
from tvm.relax.dpl import DFPattern, is_op, wildcard
from tvm.relax.expr_functor import PyExprMutator, mutator

from .rewriting import has_fixed_shape, mutated, operator_of, rewritten

_RESIZE = "relax.image.resize2d"


@tvm.transform.module_pass(opt_level=0, name="SymbolicResizes")
def symbolic_resizes(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
    """Pass that makes functions of resizing between symbolic extents; fixed ones stay TVM's."""
    resizing = _Resizing(mod := _transposed_before(mod))
    changed = mutated(mod, resizing)
    return changed if resizing.has_resized else mod


def _transposed_before(mod: tvm.IRModule) -> tvm.IRModule:
    """The module with images transposed before a resizing, not after it: most resized images are larger."""
    resized = is_op(_RESIZE)(wildcard(), wildcard())
    transposed = is_op("relax.permute_dims")(resized)

    def rewrite(expr: relax.Expr, found: Mapping[DFPattern, relax.Expr]) -> relax.Expr:
        call, axes = found[resized], expr.attrs.axes
        if has_fixed_shape(call) or axes is None:
            return expr
        layout = str(call.attrs.layout)
        attrs = {**_options(call), "layout": "".join(layout[int(axis)] for axis in axes)}
        return relax.op.image.resize2d(relax.op.permute_dims(call.args[0], axes), call.args[1], **attrs)

    return rewritten(mod, transposed, rewrite)


def _options(call: relax.Call) -> dict[str, Any]:
    attrs = call.attrs
    words = ("method", "coordinate_transformation_mode", "rounding_method")
    return {**{word: str(getattr(attrs, word)) for word in words}, "cubic_alpha": float(attrs.cubic_alpha)}


@mutator
class _Resizing(PyExprMutator):
    """Functions of one axis each in place of the operator."""

    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self.has_resized = False

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        """The resized image, or the call itself."""
        if operator_of(call) != _RESIZE or (has_fixed_shape(call.args[0]) and has_fixed_shape(call)):
            return call
        self.has_resized = True
        x, layout = self.visit_expr(call.args[0]), str(call.attrs.layout)
        for axis in sorted((layout.index("H"), layout.index("W")), reverse=True):
            new = call.ty.shape[axis]
            if not tvm_ffi.structural_equal(x.ty.shape[axis], new):
                x = self.builder_.emit(
                    self.builder_.call_te(
                        resized_axis,
                        x,
                        axis,
                        relax.ShapeExpr([new]),
                        **_options(call),
                        primfunc_name_hint="resize",
                    )
                )
        return x


def resized_axis(
    x: te.Tensor,
    axis: int,
    extents: list[Any],
    method: str,
    coordinate_transformation_mode: str,
    rounding_method: str,
    cubic_alpha: float,
) -> te.Tensor:
    """An image with one axis of another extent; the words are those of relax.op.image.resize2d.

    Raises ValueError for words that PyTorch has no counterpart of.
    """
    (new,) = extents
    extent = x.shape[axis]
    place = _place(coordinate_transformation_mode, extent, new)

    def element(*at: Any) -> Any:
        total = None
        for index, weight in _taps(method, rounding_method, cubic_alpha, place(at[axis]), extent):
            inside = tirx.max(tirx.min(index, extent - 1), tirx.const(0, "int64"))
            value = x(*at[:axis], inside, *at[axis + 1 :])
            part = value if weight is None else value * tirx.Cast(x.dtype, weight)
            total = part if total is None else total + part
        return total

    return te.compute([*x.shape[:axis], new, *x.shape[axis + 1 :]], element, "resized")


def _place(mode: str, extent: Any, new: Any) -> Any:
    """Function from the index of an output to its place among the inputs, a float32."""
    before, after, one = _float(extent), _float(new), _float(1)
    half = tirx.const(0.5, "float32")
    if mode == "half_pixel":
        return lambda at: (_float(at) + half) * (before / after) - half
    if mode == "align_corners":
        return lambda at: _float(at) * ((before - one) / tirx.max(after - one, one))
    if mode == "asymmetric":
        return lambda at: _float(at) * (before / after)
    raise ValueError(f"coordinate_transformation_mode={mode}: use half_pixel, align_corners or asymmetric")


def _float(value: Any) -> Any:
    return tirx.const(value, "float32") if isinstance(value, int) else tirx.Cast("float32", value)


def _taps(method: str, rounding: str, alpha: float, place: Any, extent: Any) -> list[tuple[Any, Any]]:
    """Indices of the inputs of an element, which may lie outside, and their weights; None stands for 1."""
    if method == "nearest_neighbor":
        if rounding != "floor":
            raise ValueError(f"rounding_method={rounding}: use floor")
        return [(_floor(place), None)]
    if method == "linear":
        place = tirx.max(place, _float(0))
        low = tirx.min(_floor(place), extent - 1)
        share = tirx.min(place - _float(low), _float(1))
        return [(low, _float(1) - share), (low + 1, share)]
    if method == "cubic":
        low = _floor(place)
        share = place - _float(low)
        distances = [share + _float(1), share, _float(1) - share, _float(2) - share]
        return [(low + at - 1, _cubic(one, alpha, near=at in (1, 2))) for at, one in enumerate(distances)]
    raise ValueError(f"method={method}: use nearest_neighbor, linear or cubic")


def _floor(place: Any) -> Any:
    return tirx.Cast("int64", tirx.floor(place))


def _cubic(x: Any, alpha: float, *, near: bool) -> Any:
    """Keys' cubic filter at a distance of at most 1, or of 1 to 2."""
    a = tirx.const(alpha, "float32")
    two, three, one = _float(2), _float(3), _float(1)
    if near:
        return ((a + two) * x - (a + three)) * x * x + one
    four, five, eight = _float(4), _float(5), _float(8)
    return ((a * x - five * a) * x + eight * a) * x - four * a
