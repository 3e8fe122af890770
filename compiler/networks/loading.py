"""Networks by name, import path or ONNX file, with example inputs. Works without TVM."""

from __future__ import annotations

import copy
import difflib
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ...errors import UserError
from ...wording import counted
from .importing import onnx_import
from .inputs import (
    BadInputShapeError,
    InputRange,
    InputSpec,
    edge_array,
    example_inputs,
    input_ranges,
    other_array,
    own_range,
)
from .known import ZOO, draw_statistics
from .outputs import BadOutputError, evaluating, output_arrays
from .random_draws import DrawingOperators, RandomNetworkError, require_equal, require_no_draws
from .rounding import NarrowTypes, changing_elements, largest_errors, nudged


class UnknownNetworkError(UserError, ValueError):
    """No network has this name, import path or file."""


@dataclass(frozen=True, eq=False)
class Network:
    """A network with fixed input shapes: a PyTorch module, or an ONNX file."""

    name: str
    inputs: tuple[NDArray[Any], ...]
    """Example inputs in the order of the network's arguments."""
    module: nn.Module | None = None
    """The module in evaluation mode; None for an ONNX file."""
    onnx_path: Path | None = None
    quantised_path: Path | None = None
    """ONNX file in QDQ form that is tuned in its place; see `quantisation.quantised`."""
    quantised_s: float = 0.0
    """Seconds that the quantisation took; 0 if the network was given quantised."""
    ranges: tuple[InputRange, ...] = ()
    """Range of each input; empty if they are not known."""
    first_outputs: Sequence[NDArray[Any]] | None = None
    """Outputs of the module's first run on the example inputs, which found that it runs; None without one."""

    def torch_inputs(self) -> tuple[torch.Tensor, ...]:
        """Copies of the example inputs as tensors, which a network may change in place."""
        return _as_tensors(self.inputs)

    def reference_outputs(self) -> list[NDArray[Any]]:
        """Outputs for the example inputs, by PyTorch eager or ONNX Runtime.

        ONNX's own (slow) reference evaluator runs a file that ONNX Runtime does not run. Raises
        BadInputShapeError where neither runs the file, MissingExtraError.
        """
        return self._onnx_outputs if self.module is None else self._outputs_for(self.inputs)

    @cached_property
    def _onnx_outputs(self) -> list[NDArray[Any]]:
        return self._outputs_for(self.inputs)

    def _outputs_for(self, inputs: tuple[NDArray[Any], ...]) -> list[NDArray[Any]]:
        if self.module is not None:
            with torch.inference_mode():
                return output_arrays(self.module(*_as_tensors(inputs)))
        assert self.onnx_path is not None
        outputs = onnx_import.runtime_outputs(self.onnx_path, inputs)
        if outputs is not None:
            return outputs
        try:
            return onnx_import.reference_outputs(self.onnx_path, inputs)
        except UserError:
            raise
        except Exception as error:  # NumPy and onnx raise many types
            remedy = "or install onnxruntime for operators that onnx lacks"
            raise _does_not_run(self.onnx_path, inputs, error, remedy) from error

    def outputs_in(self, dtype: torch.dtype) -> list[NDArray[Any]] | None:
        """Outputs of the module in another floating type, by PyTorch eager; None if it does not run."""
        if self.module is None:
            return None
        try:
            with torch.inference_mode():
                inputs = [
                    tensor.to(dtype) if tensor.is_floating_point() else tensor
                    for tensor in self.torch_inputs()
                ]
                return output_arrays(copy.deepcopy(self.module).to(dtype)(*inputs))
        except (RuntimeError, TypeError, ValueError):  # of a module that mixes in float32
            return None

    def with_inputs(self, inputs: Sequence[NDArray[Any]]) -> Network:
        """The network with other example inputs of the same shapes and dtypes."""
        return replace(self, inputs=tuple(inputs), first_outputs=None)

    def with_other_inputs(self, seed: int) -> Network:
        """The network with other random inputs: normal ones, and permuted integers; fixed ones stay."""
        rng = np.random.default_rng(seed)
        return self._changed(lambda array, _: other_array(array, rng))

    def with_edge_inputs(self) -> Network:
        """The network with inputs that are easily forgotten: see `edge_array`; fixed ones stay."""
        return self._changed(edge_array)

    def _changed(self, change: Callable[[NDArray[Any], int], NDArray[Any]]) -> Network:
        """The network with inputs that `change` makes of an input and of its range."""
        ranges = self.ranges or tuple(map(own_range, self.inputs))
        pairs = zip(self.inputs, ranges, strict=True)
        return self.with_inputs([array if one.fixed else change(array, one.high) for array, one in pairs])

    def rounding_errors(self, reference: Sequence[NDArray[Any]]) -> list[float]:
        """Largest difference of each of `reference`, the network's own outputs, from exact ones.

        Exact are the outputs in double precision. Deep networks amplify roundings, and one evaluation may
        happen to come near: ResNeSt-50 is off by 0.05 to 0.2 of 2,000. So others count as well, which round
        otherwise: by PyTorch's own kernels, and of inputs that differ in their last bit. Integers, booleans
        and infinite differences do not count. An ONNX file has no double precision, so `reference` counts as
        exact. 0 where neither is to be had. A network that computes in a narrower type, such as bfloat16,
        may differ by a rounding of that type.
        """
        if self.module is None:
            return largest_errors(self._nudged_outputs(), reference)
        with NarrowTypes() as narrow:
            self.reference_outputs()
        inside = narrow.roundings(reference)
        exact = self.outputs_in(torch.float64)
        if exact is None:
            return inside
        evaluations = [reference, *self._nudged_outputs()]
        with torch.backends.mkldnn.flags(enabled=False):
            evaluations.append(self.reference_outputs())
        return list(map(max, largest_errors(evaluations, exact), inside))

    def changing_elements(self, reference: Sequence[NDArray[Any]]) -> list[NDArray[np.bool_]]:
        """Elements of each output that change with the last bit of the inputs, or with ties of elements.

        The position of the largest of equal elements is an example: every implementation may choose another.
        """
        return changing_elements(self._nudged_outputs(ties=True), reference)

    def _nudged_outputs(self, *, ties: bool = False) -> list[list[NDArray[Any]]]:
        """Outputs for nudged inputs; none for a file that ONNX Runtime does not run."""
        if self.module is not None:
            return [self._outputs_for(inputs) for inputs in nudged(self.inputs, ties=ties)]
        assert self.onnx_path is not None
        found = [
            onnx_import.runtime_outputs(self.onnx_path, inputs) for inputs in nudged(self.inputs, ties=ties)
        ]
        return [outputs for outputs in found if outputs is not None]


def _as_tensors(arrays: Sequence[NDArray[Any]]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.from_numpy(array.copy()) for array in arrays)


def load_network(
    name_or_path: str,
    *,
    inputs: Sequence[InputSpec] | None = None,
    batch: int = 1,
    seed: int = 0,
    kwargs: Mapping[str, Any] | None = None,
) -> Network:
    """Builds a network and its example inputs; `seed` fixes weights and inputs.

    Args:
        name_or_path: a name of `known.ZOO`, `package.module:Factory`, or a path that ends in `.onnx`.
        inputs: one specification per argument, instead of the default; an import path has no default.
            Floating inputs are standard normal, integer ones lie in [0, high), high being 2 by default. An
            input with a value always has it; in an ONNX file it becomes a constant.
        batch: the leading extent of the default inputs; given `inputs` have it in their shapes.
        kwargs: keyword arguments of an import path's factory.

    Raises UnknownNetworkError, BadInputShapeError, BadOutputError, RandomNetworkError, MissingExtraError.
    """
    if batch < 1 or (batch > 1 and inputs is not None):
        raise BadInputShapeError(
            f"batch={batch}: must be at least 1, and with inputs= it belongs into the shapes there"
        )
    if kwargs and ":" not in name_or_path:
        raise UnknownNetworkError(
            f"network={name_or_path}: kwargs= is for the factory of an import path, package.module:Factory"
        )
    check_name(name_or_path)
    if name_or_path.endswith(".onnx"):
        path = Path(name_or_path)
        require_no_draws(path)
        specs = _onnx_specs(path, batch) if inputs is None else _one_spec_for_each_input(path, inputs)
        values, rest = onnx_import.given_values(path, specs)
        bound = onnx_import.with_values(path, values)
        return Network(path.stem, example_inputs(rest, seed), onnx_path=bound, ranges=input_ranges(rest))

    factory: Callable[[], nn.Module]
    if ":" in name_or_path:
        if inputs is None:
            raise BadInputShapeError(
                f"network={name_or_path}: an import path needs input shapes, such as inputs=[[1,3,224,224]]"
            )
        name = name_or_path.rpartition(":")[2]
        specs, factory = inputs, partial(_call_import_path, name_or_path, dict(kwargs or {}))
    else:
        entry, name = ZOO[name_or_path], name_or_path
        specs = inputs if inputs is not None else [_with_batch(spec, batch) for spec in entry.inputs]
        factory = partial(_with_drawn_statistics, entry.build)

    arrays = example_inputs(specs, seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = evaluating(factory())
    network = Network(name, arrays, module, ranges=input_ranges(specs))
    return replace(network, first_outputs=_check_run(network, name_or_path))


def _check_run(network: Network, name_or_path: str) -> list[NDArray[Any]]:
    """Outputs of a module for its example inputs, after a second run if it may draw random numbers.

    Raises BadInputShapeError, BadOutputError, RandomNetworkError.
    """
    try:
        with DrawingOperators() as drawing, torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            outputs = network.reference_outputs()
        if drawing.names:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(1)
                require_equal(name_or_path, outputs, network.reference_outputs(), list(drawing.names))
        return outputs
    except RandomNetworkError:
        raise
    except BadOutputError as error:
        raise BadOutputError(f"network={name_or_path}: {error}") from error
    except Exception as error:  # a user's forward may raise anything
        raise _does_not_run(name_or_path, network.inputs, error) from error


def _does_not_run(
    name_or_path: str | Path, arrays: Sequence[NDArray[Any]], error: Exception, remedy: str = ""
) -> BadInputShapeError:
    return BadInputShapeError(
        f"network={name_or_path} does not run on inputs {[list(a.shape) for a in arrays]} "
        f"of {[str(a.dtype) for a in arrays]}: {kind_and_line(error)}; correct inputs="
        + (f", {remedy}" if remedy else "")
    )


def kind_and_line(error: Exception) -> str:
    """Kind of an error and the first line of its message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def check_name(name_or_path: str) -> None:
    """Raises UnknownNetworkError for an unknown name or a missing file, without loading the network."""
    if name_or_path.endswith(".onnx"):
        if not Path(name_or_path).is_file():
            raise UnknownNetworkError(f"network={name_or_path}: no such file; give the path of an ONNX file")
    elif ":" not in name_or_path and name_or_path not in ZOO:
        close = difflib.get_close_matches(name_or_path, ZOO, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise UnknownNetworkError(
            f"network={name_or_path}: unknown; {hint}Known by name: {', '.join(ZOO)}. Or give "
            "package.module:Factory, or a path that ends in .onnx"
        )


def _with_drawn_statistics(build: Callable[[], nn.Module]) -> nn.Module:
    return draw_statistics(build())


def _call_import_path(path: str, kwargs: dict[str, Any]) -> nn.Module:
    module_name, _, attribute = path.rpartition(":")
    try:
        with _working_directory_importable():
            factory = getattr(importlib.import_module(module_name), attribute)
        module = factory(**kwargs)
    except Exception as error:  # a user's module or factory may raise anything
        raise UnknownNetworkError(
            f"network={path}: cannot build it ({kind_and_line(error)}); give package.module:Factory, "
            "importable from here, and the factory's arguments in kwargs="
        ) from error
    if not isinstance(module, nn.Module):
        raise UnknownNetworkError(
            f"network={path}: the factory returned {type(module).__name__}; it must return a torch.nn.Module"
        )
    return module


@contextmanager
def _working_directory_importable() -> Iterator[None]:
    """Appends the working directory to the import path, where console commands lack it."""
    here = str(Path.cwd())
    if here in sys.path:
        yield
        return
    sys.path.append(here)
    try:
        yield
    finally:
        sys.path.remove(here)


def _with_batch(spec: Mapping[str, Any], batch: int) -> dict[str, Any]:
    return {**spec, "shape": [batch, *spec["shape"][1:]]}


def _one_spec_for_each_input(path: Path, specs: Sequence[InputSpec]) -> Sequence[InputSpec]:
    """The specifications, one for each input of the file; raises BadInputShapeError for another number."""
    names = [name for name, *_ in onnx_import.input_signature(path)]
    if len(specs) != len(names):
        raise BadInputShapeError(
            f"network={path}: inputs= has {counted(len(specs), 'specification')}, and the file takes "
            f"{counted(len(names), 'input')}: {', '.join(names)}"
        )
    return specs


def _onnx_specs(path: Path, batch: int) -> list[dict[str, Any]]:
    """Specifications from the file; a dynamic leading extent is the batch. Raises for other dynamic ones."""
    specs = []
    for name, shape, dtype in onnx_import.input_signature(path):
        extents = [batch if extent is None and axis == 0 else extent for axis, extent in enumerate(shape)]
        if None in extents or (batch > 1 and extents[:1] != [batch]):
            raise BadInputShapeError(
                f"network={path}: input {name} has shape {shape}, so batch={batch} leaves extents open; give "
                "every input's shape, such as inputs=[[1,3,224,224]], or its ranges: dims.NAME=1:512"
            )
        specs.append({"shape": extents, "dtype": dtype})
    return specs
