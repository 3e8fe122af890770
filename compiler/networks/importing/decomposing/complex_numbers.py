"""Programs with complex numbers as programs of pairs of real tensors, which TVM can compute.

A complex tensor becomes its real and its imaginary part. Fourier transforms of fixed sizes become products
with constant matrices. Programs without complex numbers stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch.export import ExportedProgram

from .composite_operators import run_decompositions
from .errors import ConversionError

_ATEN = torch.ops.aten


@dataclass(frozen=True)
class Pair:
    """A complex tensor: parts of equal shape."""

    real: torch.Tensor
    imaginary: torch.Tensor


def has_complex_numbers(program: ExportedProgram) -> bool:
    """Whether a tensor of the program is complex."""
    return any(_is_complex(node.meta.get("val")) for node in program.graph.nodes)


def _is_complex(value: Any) -> bool:
    parts = value if isinstance(value, list | tuple) else [value]
    return any(isinstance(part, torch.Tensor) and part.is_complex() for part in parts)


def in_real_numbers(program: ExportedProgram) -> ExportedProgram:
    """The program without complex numbers. Raises ConversionError."""
    if not has_complex_numbers(program):
        return program
    core = run_decompositions(program, {})
    inputs = program.example_inputs
    assert inputs is not None
    with torch.no_grad():
        return torch.export.export(WithoutComplexNumbers(core), inputs[0])


class WithoutComplexNumbers(nn.Module):
    """The module of a program in core operators, computed in real tensors.

    Raises ConversionError for complex inputs and outputs and for operators without a real form.
    """

    def __init__(self, program: ExportedProgram) -> None:
        super().__init__()
        self.graph_module = program.module()
        self.constants: dict[str, str] = {}
        for name, tensor in [
            *self.graph_module.named_parameters(),
            *self.graph_module.named_buffers(),
            *((name, value) for name, value in vars(self.graph_module).items() if _is_complex(value)),
        ]:
            if tensor.is_complex():
                real, imaginary = (part.detach().clone() for part in (tensor.real, tensor.imag))
                place = f"parts_of_{name.replace('.', '_')}"
                self.register_buffer(f"{place}_real", real)
                self.register_buffer(f"{place}_imaginary", imaginary)
                self.constants[name] = place
                parent, _, own = name.rpartition(".")
                delattr(self.graph_module.get_submodule(parent), own)

    def forward(self, *inputs: torch.Tensor) -> Any:
        if any(tensor.is_complex() for tensor in inputs):
            raise ConversionError("an input is complex; give torch.view_as_real of it instead")
        found = _RealInterpreter(self).run(*inputs)
        if any(isinstance(output, Pair) for output in found):
            raise ConversionError("an output is complex; return torch.view_as_real of it instead")
        return found


class _RealInterpreter(fx.Interpreter):
    """Runs a graph with pairs in the place of complex tensors."""

    def __init__(self, owner: WithoutComplexNumbers) -> None:
        super().__init__(owner.graph_module)
        self.owner = owner

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target not in self.owner.constants:
            return super().get_attr(target, args, kwargs)
        place = self.owner.constants[target]
        return Pair(getattr(self.owner, f"{place}_real"), getattr(self.owner, f"{place}_imaginary"))

    def run_node(self, n: fx.Node) -> Any:
        """Runs a node by its form in real numbers if it reads or makes complex ones."""
        arguments, options = self.fetch_args_kwargs_from_env(n)
        made = n.meta.get("val")
        complex_arguments = any(isinstance(one, Pair) for one in _leaves(arguments))
        if n.op != "call_function" or not (complex_arguments or _is_complex(made)):
            return super().run_node(n)
        if (form := FORMS.get(n.target)) is not None:
            return form(*arguments, **options)
        if n.target in BY_PARTS:
            return _by_parts(n.target, arguments, options)
        name = getattr(n.target, "__name__", str(n.target))
        raise ConversionError(f"{name} of complex numbers; compute with their real and imaginary parts")


def _leaves(arguments: Any) -> list[Any]:
    return [leaf for one in arguments for leaf in (_leaves(one) if isinstance(one, list | tuple) else [one])]


def _by_parts(target: Callable[..., Any], arguments: Any, options: Any) -> Any:
    """An operator that treats the two parts alike, such as a view."""

    def parts(value: Any, name: str) -> Any:
        if isinstance(value, list | tuple):
            return [parts(one, name) for one in value]
        return getattr(value, name) if isinstance(value, Pair) else value

    real, imaginary = (target(*parts(arguments, name), **options) for name in ("real", "imaginary"))
    if isinstance(real, list | tuple):
        return [Pair(*both) for both in zip(real, imaginary, strict=True)]
    return Pair(real, imaginary)


def _pair(value: Any) -> Pair:
    """A pair of a pair, a real tensor or a number."""
    if isinstance(value, Pair):
        return value
    if isinstance(value, complex):
        return Pair(torch.tensor(value.real), torch.tensor(value.imag))
    real = value if isinstance(value, torch.Tensor) else torch.tensor(float(value))
    return Pair(real, torch.zeros_like(real))


def _multiplied(x: Any, y: Any) -> Pair:
    if not isinstance(y, Pair | complex):
        return Pair(x.real * y, x.imaginary * y)
    if not isinstance(x, Pair | complex):
        return Pair(x * _pair(y).real, x * _pair(y).imaginary)
    x, y = _pair(x), _pair(y)
    return Pair(x.real * y.real - x.imaginary * y.imaginary, x.real * y.imaginary + x.imaginary * y.real)


def _divided(x: Any, y: Any) -> Pair:
    if not isinstance(y, Pair | complex):
        return Pair(x.real / y, x.imaginary / y)
    y = _pair(y)
    scale = y.real * y.real + y.imaginary * y.imaginary
    return _multiplied(_pair(x), Pair(y.real / scale, -y.imaginary / scale))


def _sum(sign: int) -> Callable[..., Pair]:
    def form(x: Any, y: Any, alpha: float = 1) -> Pair:
        x, y, factor = _pair(x), _pair(y), sign * alpha
        real, imaginary = x.real + factor * y.real, x.imaginary + factor * y.imaginary
        return Pair(*torch.broadcast_tensors(real, imaginary))

    return form


def _product(multiply: Callable[..., torch.Tensor]) -> Callable[..., Pair]:
    """A product of matrices, of which one may be real."""

    def form(x: Any, y: Any) -> Pair:
        if not isinstance(x, Pair):
            return Pair(multiply(x, y.real), multiply(x, y.imaginary))
        if not isinstance(y, Pair):
            return Pair(multiply(x.real, y), multiply(x.imaginary, y))
        return Pair(
            multiply(x.real, y.real) - multiply(x.imaginary, y.imaginary),
            multiply(x.real, y.imaginary) + multiply(x.imaginary, y.real),
        )

    return form


def _polar(length: torch.Tensor, angle: torch.Tensor) -> Pair:
    return Pair(length * angle.cos(), length * angle.sin())


def _absolute(x: Pair) -> torch.Tensor:
    return (x.real * x.real + x.imaginary * x.imaginary).sqrt()


def _exponential(x: Pair) -> Pair:
    return _polar(x.real.exp(), x.imaginary)


def _padded(x: Pair, sides: Sequence[int], value: float = 0) -> Pair:
    pad = _ATEN.constant_pad_nd.default
    return Pair(pad(x.real, sides, value), pad(x.imaginary, sides, 0))


def _to_copy(x: Any, *, dtype: Any = None, **_: Any) -> Any:
    """A cast, of real numbers to complex ones or to another precision."""
    if dtype is None or dtype.is_complex:
        narrow = {torch.complex64: torch.float32, torch.complex128: torch.float64}.get(dtype)
        x = _pair(x)
        return x if narrow is None else Pair(x.real.to(narrow), x.imaginary.to(narrow))
    return x.real.to(dtype)


# Fourier transforms


def _turns(size: int, count: int, forward: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin [size, count] of the transform, with the sign of its direction."""
    steps = torch.arange(size, dtype=torch.int64)[:, None] * torch.arange(count, dtype=torch.int64)
    angles = torch.remainder(steps, size).to(torch.float64) * (2 * math.pi / size)
    return angles.cos(), -angles.sin() if forward else angles.sin()


def _scale(mode: int, size: int) -> float:
    return {0: 1.0, 1: 1 / math.sqrt(size), 2: 1 / size}[mode]


def _along(x: torch.Tensor, axis: int, matrix: torch.Tensor) -> torch.Tensor:
    return torch.movedim(torch.movedim(x, axis, -1) @ matrix.to(x.dtype), -1, axis)


def _transformed(x: Pair, axis: int, forward: bool, scale: float, count: int | None = None) -> Pair:
    """A transform along one axis, of which the first `count` frequencies are computed."""
    size = x.real.shape[axis]
    cosines, sines = (scale * one for one in _turns(size, count or size, forward))
    real = _along(x.real, axis, cosines) - _along(x.imaginary, axis, sines)
    return Pair(real, _along(x.real, axis, sines) + _along(x.imaginary, axis, cosines))


def _complex_transform(x: Pair, axes: Sequence[int], mode: int, forward: bool) -> Pair:
    for axis in axes:
        x = _transformed(x, axis, forward, _scale(mode, x.real.shape[axis]))
    return x


def _real_transform(x: torch.Tensor, axes: Sequence[int], mode: int, onesided: bool) -> Pair:
    *others, last = axes
    size = x.shape[last]
    cosines, sines = _turns(size, size // 2 + 1 if onesided else size, True)
    scale = _scale(mode, size)
    found = Pair(_along(x, last, scale * cosines), _along(x, last, scale * sines))
    return _complex_transform(found, others, mode, True)


def _inverse_real_transform(x: Pair, axes: Sequence[int], mode: int, size: int) -> torch.Tensor:
    """Real numbers of the frequencies 0 to size / 2, of which all but the first and last count twice."""
    *others, last = axes
    x = _complex_transform(x, others, mode, False)
    count = size // 2 + 1
    twice = torch.full((count, 1), 2.0, dtype=torch.float64)
    ends = torch.arange(count)[:, None]
    twice = torch.where((ends == 0) | (2 * ends == size), torch.ones_like(twice), twice)
    cosines, sines = (twice * one.mT * _scale(mode, size) for one in _turns(size, count, False))
    real, imaginary = (part.narrow(last, 0, count) for part in (x.real, x.imaginary))
    return _along(real, last, cosines) - _along(imaginary, last, sines)


FORMS: Mapping[Any, Callable[..., Any]] = {
    _ATEN.view_as_complex.default: lambda x: Pair(x.select(-1, 0), x.select(-1, 1)),
    _ATEN.view_as_real.default: lambda x: torch.stack([x.real, x.imaginary], -1),
    _ATEN.complex.default: lambda x, y: Pair(*torch.broadcast_tensors(x, y)),
    _ATEN.polar.default: _polar,
    _ATEN.real.default: lambda x: x.real,
    _ATEN.imag.default: lambda x: x.imaginary,
    _ATEN._conj.default: lambda x: Pair(x.real, -x.imaginary),
    _ATEN.conj.default: lambda x: Pair(x.real, -x.imaginary),
    _ATEN._conj_physical.default: lambda x: Pair(x.real, -x.imaginary),
    _ATEN.conj_physical.default: lambda x: Pair(x.real, -x.imaginary),
    _ATEN.resolve_conj.default: lambda x: x,
    _ATEN.abs.default: _absolute,
    _ATEN.angle.default: lambda x: torch.atan2(x.imaginary, x.real),
    _ATEN.exp.default: _exponential,
    _ATEN.neg.default: lambda x: Pair(-x.real, -x.imaginary),
    _ATEN.mul.Tensor: _multiplied,
    _ATEN.mul.Scalar: _multiplied,
    _ATEN.div.Tensor: _divided,
    _ATEN.reciprocal.default: lambda x: _divided(1.0, x),
    _ATEN.add.Tensor: _sum(1),
    _ATEN.add.Scalar: _sum(1),
    _ATEN.sub.Tensor: _sum(-1),
    _ATEN.sub.Scalar: _sum(-1),
    _ATEN.mm.default: _product(torch.mm),
    _ATEN.bmm.default: _product(torch.bmm),
    _ATEN._to_copy.default: _to_copy,
    _ATEN.constant_pad_nd.default: _padded,
    _ATEN._fft_r2c.default: _real_transform,
    _ATEN._fft_c2c.default: _complex_transform,
    _ATEN._fft_c2r.default: _inverse_real_transform,
}
"""Operators on complex numbers by pairs."""

BY_PARTS = {
    *(_ATEN.view.default, _ATEN.reshape.default, _ATEN.permute.default, _ATEN.transpose.int, _ATEN.t.default),
    *(
        _ATEN.expand.default,
        _ATEN.unsqueeze.default,
        _ATEN.squeeze.dim,
        _ATEN.squeeze.dims,
        _ATEN.squeeze.default,
    ),
    *(
        _ATEN.select.int,
        _ATEN.slice.Tensor,
        _ATEN.index.Tensor,
        _ATEN.index_select.default,
        _ATEN.gather.default,
    ),
    *(_ATEN.cat.default, _ATEN.stack.default, _ATEN.clone.default, _ATEN.alias.default, _ATEN.detach.default),
    *(_ATEN.sum.dim_IntList, _ATEN.sum.default, _ATEN.mean.dim, _ATEN.mean.default, _ATEN.flip.default),
    *(_ATEN.roll.default, _ATEN.split_with_sizes.default, _ATEN.repeat.default),
    *(_ATEN._unsafe_view.default, _ATEN.where.self, _ATEN.lift_fresh_copy.default, _ATEN.embedding.default),
    *(_ATEN.unbind.int, _ATEN.cumsum.default),
}
"""Operators that treat the two parts alike."""
