"""PyTorch modules as Relax modules: export, decomposition, folding, conversion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
import tvm
from torch import nn
from torch.export import ExportedProgram
from tvm import relax
from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

from ....errors import first_line
from ...tvm_compat.dumps import without_dumps
from ..outputs import TensorsOnly, evaluating
from .decomposing.complex_numbers import in_real_numbers
from .decomposing.errors import ConversionError
from .decomposing.refusals import refuse_changes, refuse_random, refuse_unknown_shapes
from .decompositions import CONVERTERS, decomposed
from .fold_constants import fold_constants
from .type_promotion import promote_types
from .wrap_indices import wrap_indices


class Importer(ExportedProgramImporter):
    """TVM's importer with the conversions of CONVERTERS, whose errors name the operator."""

    decompositions: ClassVar[Mapping[Any, Callable[..., Any]]] = {}
    """Decompositions of operators that it does not convert as it should."""

    def create_convert_map(self) -> dict[str, Callable[..., Any]]:
        known = super().create_convert_map()
        further = {name: self._bound(convert) for name, convert in CONVERTERS.items()}
        converts = {**known, **further}
        return {name: _naming(name, self._of_pytorchs_type(convert)) for name, convert in converts.items()}

    def _of_pytorchs_type(self, convert: Callable[..., Any]) -> Callable[..., Any]:
        """Casts a floating result to PyTorch's type: TVM's products of float16 tensors are float32."""

        def converted(node: Any) -> Any:
            found, value = convert(node), node.meta.get("val")
            kind = getattr(found, "ty", None)
            if not isinstance(value, torch.Tensor) or not isinstance(kind, relax.TensorType):
                return found
            wanted, made = str(value.dtype).removeprefix("torch."), str(kind.dtype)
            if wanted == made or not all("float" in one for one in (wanted, made)):
                return found
            return self.block_builder.emit(relax.op.astype(found, wanted))

        return converted

    def _bound(self, convert: Callable[..., Any]) -> Callable[..., Any]:
        return lambda node: convert(node, self)


def _naming(name: str, convert: Callable[..., Any]) -> Callable[..., Any]:
    def named(node: Any) -> Any:
        try:
            return convert(node)
        except ConversionError:  # of an operator inside
            raise
        except Exception as error:  # converters raise many types
            raise ConversionError(f"TVM's importer fails on {name}: {first_line(error)}") from error

    return named


def export(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> ExportedProgram:
    """The program of the module for inputs of these shapes, whose outputs are its tensors alone."""
    with torch.no_grad():
        return torch.export.export(evaluating(TensorsOnly(module)), inputs)


def to_relax(program: ExportedProgram, importer: Importer | None = None) -> tvm.IRModule:
    """Relax module of an exported program, weights bound as constants. Raises ConversionError."""
    with without_dumps():
        return _imported(program, importer or Importer())


def _imported(program: ExportedProgram, importer: Importer) -> tvm.IRModule:
    refuse_unknown_shapes(program)
    program, unknown = decomposed(
        in_real_numbers(program), importer.convert_map.keys(), importer.decompositions
    )
    refuse_changes(program)
    refuse_random(program)
    if unknown:
        raise ConversionError(f"TVM's importer has no {', '.join(unknown)}")
    promote_types(program)
    wrap_indices(program)
    fold_constants(program)
    return importer.from_exported_program(
        program,
        keep_params_as_input=False,
        unwrap_unit_return_tuple=False,
        no_bind_return_tuple=False,
        custom_convert_map=None,
    )
