"""Networks as tuning input: a name, an import path or an ONNX file becomes a Relax module and its tasks."""

from __future__ import annotations

import difflib
import importlib
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import tvm
from numpy.typing import NDArray
from torch import nn
from torch.utils._pytree import tree_leaves
from tvm import relax
from tvm.relax.analysis import has_reshape_pattern
from tvm.relax.frontend.torch import from_exported_program
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ...errors import UserError
from ..described_task import described_task
from ..task import Task
from ..tvm_compat import as_task_module, workload_hash
from . import onnx_import
from .fold_batch_norm import fold_batch_norm
from .inputs import BadInputShapeError, InputSpec, example_inputs
from .known import ZOO
from .lowering import AS_FASTEST, Lowering, lower

CALL_TIR = tvm.ir.Op.get("relax.call_tir")


class UnknownNetworkError(UserError, ValueError):
    """No network goes by this name, import path or file."""


class NetworkExportError(UserError, RuntimeError):
    """The network cannot be turned into a graph of operators that TVM knows."""


@dataclass(frozen=True, eq=False)
class Network:
    """A network with fixed input shapes: a PyTorch module, or an ONNX file."""

    name: str
    inputs: tuple[NDArray[Any], ...]
    """Example inputs in the order of the network's arguments."""
    module: nn.Module | None = None
    """In evaluation mode; None for an ONNX file."""
    onnx_path: Path | None = None

    def torch_inputs(self) -> tuple[torch.Tensor, ...]:
        """The example inputs as tensors that share their memory."""
        return tuple(torch.from_numpy(array) for array in self.inputs)

    def reference_outputs(self) -> list[NDArray[Any]]:
        """Outputs for the example inputs, by PyTorch eager or by ONNX's own (slow) reference evaluator."""
        if self.module is None:
            assert self.onnx_path is not None
            return onnx_import.reference_outputs(self.onnx_path, self.inputs)
        with torch.inference_mode():
            # The order in which torch.export, and so the compiled network, flattens nested outputs.
            leaves = tree_leaves(self.module(*self.torch_inputs()))
        return [leaf.numpy() for leaf in leaves if isinstance(leaf, torch.Tensor)]


def load_network(
    name_or_path: str,
    *,
    inputs: Sequence[InputSpec] | None = None,
    batch: int = 1,
    seed: int = 0,
    kwargs: Mapping[str, Any] | None = None,
) -> Network:
    """Builds a network and its example inputs, both random but fixed by `seed`.

    Args:
        name_or_path: a name of `known.ZOO`, `package.module:Factory`, or a path that ends in `.onnx`.
        inputs: one specification per argument; an import path needs it, elsewhere it replaces the default.
            Floating inputs are standard normal, integer ones lie in [0, high), where high is 2 if not given.
        batch: the leading extent of the default inputs; with `inputs`, write it into the shapes instead.
        kwargs: keyword arguments of an import path's factory.

    Raises UnknownNetworkError, BadInputShapeError, MissingExtraError.
    """
    if batch < 1 or (batch > 1 and inputs is not None):
        raise BadInputShapeError(
            f"batch={batch}: must be at least 1, and with inputs= it belongs into the shapes there"
        )
    if kwargs and ":" not in name_or_path:
        raise UnknownNetworkError(
            f"network={name_or_path}: kwargs= is for the factory of an import path, package.module:Factory"
        )
    if name_or_path.endswith(".onnx"):
        path = Path(name_or_path)
        if not path.is_file():
            raise UnknownNetworkError(f"network={name_or_path}: no such file; give the path of an ONNX file")
        specs = inputs if inputs is not None else _onnx_specs(path, batch)
        return Network(path.stem, example_inputs(specs, seed), onnx_path=path)

    factory: Callable[[], nn.Module]
    if ":" in name_or_path:
        if inputs is None:
            raise BadInputShapeError(
                f"network={name_or_path}: an import path needs input shapes, such as inputs=[[1,3,224,224]]"
            )
        name = name_or_path.rpartition(":")[2]
        specs, factory = inputs, partial(_call_import_path, name_or_path, dict(kwargs or {}))
    elif name_or_path in ZOO:
        entry, name = ZOO[name_or_path], name_or_path
        specs = inputs if inputs is not None else [_with_batch(spec, batch) for spec in entry.inputs]
        factory = partial(_build_zoo_network, entry.build)
    else:
        raise UnknownNetworkError(_unknown_name(name_or_path))

    arrays = example_inputs(specs, seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = factory().eval()
    network = Network(name, arrays, module)
    try:
        network.reference_outputs()
    except Exception as error:  # whatever a user's forward raises
        raise BadInputShapeError(
            f"network={name_or_path} does not run on inputs {[list(a.shape) for a in arrays]} "
            f"of {[str(a.dtype) for a in arrays]}: {_first_line(error)}; correct inputs="
        ) from error
    return network


def to_relax(network: Network, target: Target, lowering: Lowering = AS_FASTEST) -> tvm.IRModule:
    """The network as fused TIR functions and a Relax `main` that calls them, weights bound as constants.

    This one form serves both `extract_tasks` and the database lookup of `inference.compiled`: a task tuned
    from it is found again when the same module is compiled. Raises NetworkExportError with the step that
    failed.
    """
    if network.onnx_path is not None:
        with _export_step(network, "reading the ONNX graph"):
            mod = onnx_import.to_relax(network.onnx_path, network.inputs)
    else:
        assert network.module is not None
        with _export_step(network, "torch.export"), torch.no_grad():
            program = torch.export.export(network.module, network.torch_inputs())
        with _export_step(network, "conversion to Relax"):
            mod = from_exported_program(program)
    with _export_step(network, "lowering to TIR"):
        return lower(fold_batch_norm(mod), target, lowering)


def extract_tasks(relax_mod: tvm.IRModule, target: Target, network_name: str) -> list[Task]:
    """The distinct tasks of a module from `to_relax`, in the order in which the network first calls them.

    Plain reshapes are left out: the compiler turns them into views, which cost nothing, as long as nobody
    schedules them.
    """
    first_calls = _first_calls(relax_mod)
    order = list(first_calls)
    tasks = []
    for extracted in ms.relax_integration.extract_tasks(relax_mod, target):  # in no fixed order
        mod = extracted.dispatched[0]
        if has_reshape_pattern(mod["main"]):
            continue
        name, source = first_calls[workload_hash(mod)], f"network:{network_name}"
        tasks.append(described_task(mod, name, int(extracted.weight), source))
    return sorted(tasks, key=lambda task: order.index(task.workload_hash))


def _first_calls(mod: tvm.IRModule) -> dict[str, str]:
    """Workload hash -> name of the TIR function first called with it, in the order of the calls."""
    names: dict[str, str] = {}

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, relax.Call) and expr.op.same_as(CALL_TIR):
            callee = expr.args[0]
            names.setdefault(workload_hash(as_task_module(mod[callee])), callee.name_hint)

    for func in mod.functions.values():
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(func, visit)
    return names


@contextmanager
def _export_step(network: Network, step: str) -> Iterator[None]:
    """Names the network and the step in whatever goes wrong inside it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecations inside the exporters, nothing a user can act on
            yield
    except UserError:
        raise
    except Exception as error:  # exporters raise whatever they like
        raise NetworkExportError(
            f"network={network.name}: {step} failed: {_first_line(error)}; the network must run as one "
            "graph of fixed shapes, without control flow that depends on data or operators unknown to TVM"
        ) from error


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _unknown_name(name: str) -> str:
    close = difflib.get_close_matches(name, ZOO, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return (
        f"network={name}: unknown; {hint}Known by name: {', '.join(ZOO)}. Or give package.module:Factory, or "
        "a path that ends in .onnx"
    )


def _build_zoo_network(build: Callable[[], nn.Module]) -> nn.Module:
    module = build()
    for layer in module.modules():
        # Fresh statistics are 0 and 1: an output check would not see a batch norm folded wrongly.
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.running_var is not None:
            assert layer.running_mean is not None
            layer.running_mean.normal_(0.0, 0.1)
            layer.running_var.uniform_(0.8, 1.25)
    return module


def _call_import_path(path: str, kwargs: dict[str, Any]) -> nn.Module:
    module_name, _, attribute = path.rpartition(":")
    try:
        with _working_directory_importable():
            factory = getattr(importlib.import_module(module_name), attribute)
        module = factory(**kwargs)
    except Exception as error:  # whatever a user's module or factory raises
        raise UnknownNetworkError(
            f"network={path}: cannot build it ({_first_line(error)}); give package.module:Factory, "
            "importable from here, and the factory's arguments in kwargs="
        ) from error
    if not isinstance(module, nn.Module):
        raise UnknownNetworkError(
            f"network={path}: the factory returned {type(module).__name__}; it must return a torch.nn.Module"
        )
    return module


@contextmanager
def _working_directory_importable() -> Iterator[None]:
    """Appends the working directory to the import path, which a console command does not have there."""
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


def _onnx_specs(path: Path, batch: int) -> list[dict[str, Any]]:
    """Specifications from the file; a dynamic leading extent is the batch, any other must be given."""
    specs = []
    for name, shape, dtype in onnx_import.input_signature(path):
        extents = [batch if extent is None and axis == 0 else extent for axis, extent in enumerate(shape)]
        if None in extents or (batch > 1 and extents[:1] != [batch]):
            raise BadInputShapeError(
                f"network={path}: input {name} has shape {shape}, so batch={batch} does not settle it; give "
                "every input's shape, such as inputs=[[1,3,224,224]]"
            )
        specs.append({"shape": extents, "dtype": dtype})
    return specs
