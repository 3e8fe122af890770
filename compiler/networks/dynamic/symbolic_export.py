"""Exported programs of PyTorch modules whose extents are symbols."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from inspect import signature
from itertools import product
from typing import Any

import sympy
import torch
from torch import nn
from torch.export import Dim, ExportedProgram
from torch.fx.experimental import _config
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from ....errors import UserError
from ...dynamic.symbols import DynamicShapeError, Extent
from ..importing.onnx_torch.graph_module import OnnxModule, fixed_extents
from ..importing.pooled_axis import PooledAxis
from ..importing.recurrent.layers import RecurrentLayers
from ..importing.scalar_indices import ScalarIndices
from ..loading import kind_and_line
from ..outputs import TensorsOnly
from .dynamic_inputs import DynamicInputs, Shape, sizes_text


def export(
    module: nn.Module,
    inputs: tuple[torch.Tensor, ...],
    dynamic: DynamicInputs,
    name: str,
    *,
    ones: bool = True,
) -> ExportedProgram:
    """The program of the module, whose inputs have the symbols of `dynamic` as extents.

    Args:
        module: the network.
        inputs: example inputs for `dynamic.traced`.
        dynamic: shapes of the inputs.
        name: name of the network, for errors.
        ones: whether PyTorch may ask if an extent that follows from a size is 1, such as `n // 4`.

    Raises DynamicShapeError for a network that does not work for all sizes of the ranges.
    """
    network = TensorsOnly(module, _replacing).eval()
    bound = signature(network.forward).bind(*dynamic_shapes(dynamic))
    is_file = isinstance(module, OnnxModule)
    place: Callable[[], str] = partial(getattr, module, "place") if is_file else _users_line
    with torch.no_grad(), _recorded_guards(place) as guards:
        try:
            program = _exported(network, inputs, dict(bound.arguments), ones)
        except Exception as error:
            reason = _violation(str(error), dynamic, guards, "operator" if is_file else "line")
            if reason is None:
                spot = place() or (guards[-1][1] if guards else "")
                if is_file and spot and not isinstance(error, UserError):
                    raise fixed_extents(spot, kind_and_line(error)) from error
                raise
            raise DynamicShapeError(f"network={name}: {reason}") from error
    _reshape_in_place_of_views(program)
    return program


@contextmanager
def _replacing() -> Iterator[None]:
    """Context in which operators have a form that keeps symbols."""
    with ScalarIndices(), RecurrentLayers(), PooledAxis():
        yield


def dynamic_shapes(dynamic: DynamicInputs) -> list[dict[int, Any] | None]:
    """Symbolic extents of each input by their axis, in the form of `torch.export`."""
    dims = {one.name: Dim(one.name, min=one.low, max=one.high) for one in dynamic.symbols.values()}
    return [None if shape is None else _dims_of(shape, dims) for shape in dynamic.shapes]


def _exported(
    network: nn.Module, inputs: tuple[torch.Tensor, ...], shapes: dict[str, Any], ones: bool
) -> ExportedProgram:
    """The program; raises what PyTorch raises.

    PyTorch refuses a condition that it cannot prove, such as `1 % (n // 2) != 0` for n over 3. So the network
    is exported again with such conditions as checks of each call, which are tried here for the sizes of the
    range.
    """
    try:
        return torch.export.export(network, inputs, dynamic_shapes=shapes)
    except Exception as error:
        patterns = [_GUARD] if ones else [_GUARD, _CONSTANT, _SPECIALISED]
        if not any(one.search(str(error)) for one in patterns):
            raise
        contexts: list[Callable[[], AbstractContextManager[None]]] = [nullcontext]
        for context in contexts if ones else [*contexts, _without_ones]:
            with suppress(Exception), context():
                program = torch.export.export(network, inputs, dynamic_shapes=shapes, **_deferred())
                if not broken_guards(program, [*removed_checks(program), *guards_of(program)]):
                    return program
        raise


def _deferred() -> dict[str, Any]:
    """Option of later releases of PyTorch, with which conditions become checks of each call."""
    name = "prefer_deferred_runtime_asserts_over_guards"
    return {name: True} if name in signature(torch.export.export).parameters else {}


@contextmanager
def _without_ones() -> Iterator[None]:
    """Context in which PyTorch takes no symbolic extent for 1, in releases that have this option."""
    options: Any = _config
    name = "backed_size_oblivious"
    with options.patch(**{name: True}) if hasattr(options, name) else nullcontext():
        yield


def removed_checks(program: ExportedProgram) -> list[Any]:
    """Conditions on symbols that a program checks in each call, whose checks are removed in place.

    Each retracing, as for decompositions, inserts them again.
    """
    checks = program.graph.find_nodes(op="call_function", target=torch.ops.aten._assert_scalar.default)
    conditions = [getattr(node.args[0], "meta", {}).get("val") for node in checks]
    for node in checks:
        program.graph.erase_node(node)
    program.graph.eliminate_dead_code()
    return [one.node.expr for one in conditions if isinstance(one, torch.SymBool)]


def _reshape_in_place_of_views(program: ExportedProgram) -> None:
    """Lets PyTorch copy if a view of symbolic strides is not certain; TVM's tensors have no strides."""
    for node in program.graph.find_nodes(op="call_function", target=torch.ops.aten.view.default):
        node.target = torch.ops.aten.reshape.default
    program.graph_module.recompile()


def _dims_of(shape: Shape, dims: Mapping[str, Any]) -> dict[int, Any]:
    found = {}
    for axis, extent in enumerate(shape):
        if isinstance(extent, Extent):
            dim = dims[extent.symbol]
            scaled = dim if extent.factor == 1 else extent.factor * dim
            found[axis] = scaled + extent.offset if extent.offset else scaled
    return found


_CONSTANT = re.compile(r"You marked (\S+) as dynamic but your code specialized it to be a constant \((\d+)\)")
_SPECIALISED = re.compile(r"guards generated for (\S+) = .* resulted in a specialized value of (\d+)")
_EQUAL = re.compile(r"The values of (\S+) = .* and (\S+) = .* must always be equal")
_GUARD = re.compile(
    r"Not all values of (\S+) = (\S+) in the specified range .* satisfy the generated guard (.*)"
)


_SIZES = re.compile(r"size of tensor .* must match the size of tensor")


def _violation(
    message: str, dynamic: DynamicInputs, guards: Sequence[tuple[str, str]], unit: str
) -> str | None:
    """Demand of a network on its sizes that the ranges do not keep; None for another error.

    `unit` is the part of the network that the guards name: a line, or an operator of a file.
    """
    line = f" ({guards[-1][1]})" if guards else ""
    if found := _CONSTANT.search(message) or _SPECIALISED.search(message):
        fixed = next((place for guard, place in guards if guard.startswith("Eq(")), "")
        line = f" ({fixed})" if fixed else line
        return (
            f"its code works for {found[1]}={found[2]} alone, with which it was traced{line}; write the "
            f"number in place of the symbol, or change that {unit}"
        )
    if found := _EQUAL.search(message):
        return f"{found[1]} and {found[2]} must be equal{line}; give both the same symbol"
    if found := _GUARD.search(message):
        name, source, guard = found[1], found[2], found[3].rstrip(".")
        shown = dynamic.symbols.get(name, name)
        # PyTorch traces no size of 1, so that its conditions leave it out.
        demand = guard.replace(source, name).removeprefix(f"2 <= {name} and ")
        return (
            f"not all sizes of {shown} take the same way through its code, which demands {demand}{line}; "
            f"change the range, or that {unit}"
        )
    if _SIZES.search(message):
        sizes = sizes_text(dynamic.traced)
        return f"its inputs do not fit together for {sizes}; give extents that must be equal the same symbol"
    return None


@contextmanager
def _recorded_guards(place: Callable[[], str]) -> Iterator[list[tuple[str, str]]]:
    """Conditions on symbols that PyTorch records inside the block, each with the place of the network."""
    found: list[tuple[str, str]] = []
    log: Any = getattr(ShapeEnv, "_log_guard", None)
    if log is None:  # a name that PyTorch may change
        yield found
        return

    def logged(env: ShapeEnv, prefix: str, guard: Any, *rest: Any, **options: Any) -> Any:
        found.append((str(guard), place()))
        return log(env, prefix, guard, *rest, **options)

    ShapeEnv._log_guard = logged  # type: ignore[method-assign, assignment]
    try:
        yield found
    finally:
        ShapeEnv._log_guard = log  # type: ignore[method-assign]


_NOT_A_USERS = ("torch", __name__.partition(".")[0])


def _users_line() -> str:
    """The innermost line of this call that is neither PyTorch's nor of this package."""
    for frame, line in traceback.walk_stack(None):
        module, file = frame.f_globals.get("__name__", ""), frame.f_code.co_filename
        if module.partition(".")[0] not in _NOT_A_USERS and not file.startswith("<"):
            return f"{file}:{line}"
    return ""


def guards_of(program: ExportedProgram) -> list[Any]:
    """Conditions on symbols that PyTorch has recorded for a program so far."""
    return [guard.expr for env in _environments(program) for guard in env.guards]


def check_guards(program: ExportedProgram, dynamic: DynamicInputs, before: Sequence[Any], name: str) -> None:
    """Raises DynamicShapeError if a step of the conversion decided by the size that was traced.

    PyTorch records what its decompositions assume of a size. What they assume must hold for the whole range,
    see `broken_guards`.

    Args:
        program: an exported program, which was decomposed since.
        dynamic: ranges of its symbols.
        before: `guards_of` the program before, which PyTorch has compared with the ranges.
        name: name of the network, for errors.
    """
    for guard in broken_guards(program, guards_of(program)[len(before) :]):
        raise DynamicShapeError(
            f"network={name}: the conversion of one of its operators works only for sizes with {guard}; "
            f"narrow the range of {', '.join(dynamic.symbols)}"
        )


def broken_guards(program: ExportedProgram, guards: Sequence[Any]) -> list[Any]:
    """Conditions on symbols that some sizes of their ranges do not meet.

    An extent of 1 is left out: PyTorch never broadcasts a symbolic axis, whatever its size, and outputs at
    the ends of the ranges are compared.
    """
    ranges = {str(one): bounds for env in _environments(program) for one, bounds in env.var_to_range.items()}
    broken = []
    for guard in guards:
        if _asks_for_one(guard):
            continue
        free = sorted(guard.free_symbols, key=str)
        tried = product(*(_tried(ranges[str(one)], MOST_TRIED // 4 ** (len(free) - 1)) for one in free))
        if any(guard.subs(dict(zip(free, sizes, strict=True))) == sympy.false for sizes in tried):
            broken.append(guard)
    return broken


def _asks_for_one(guard: Any) -> bool:
    """Whether a condition is that an extent is not 1, such as `n // 4 != 1` or `b * (n // 4) != b`."""
    if not isinstance(guard, sympy.Ne) or sympy.S.Zero in guard.args:
        return False
    left, right = guard.args
    pairs = [(left, right), (right, left)]
    return any((one == 1 or one.free_symbols) and sympy.denom(other / one) == 1 for other, one in pairs)


MOST_TRIED = 512
"""Sizes for which a condition is tried, of a longer range."""


def _tried(bounds: Any, most: int) -> list[int]:
    """Sizes over 1 of a range: all, or those near its ends and some between."""
    low, high = max(2, int(bounds.lower)), int(bounds.upper)
    if high - low < most:
        return list(range(low, high + 1))
    step = (high - low) / (most // 2)
    between = [int(low + number * step) for number in range(most // 2)]
    return sorted({*between, *range(low, low + most // 4), *range(high - most // 4, high + 1)})


def _environments(program: ExportedProgram) -> Iterator[ShapeEnv]:
    """Environments of the symbols of a program, each once."""
    seen: list[Any] = []
    for node in program.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        for extent in value.shape if isinstance(value, torch.Tensor) else ():
            if isinstance(extent, torch.SymInt) and not any(extent.node.shape_env is one for one in seen):
                seen.append(extent.node.shape_env)
    yield from seen
