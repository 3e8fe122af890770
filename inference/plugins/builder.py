"""Initializer for the workers of MetaSchedule's own builder; they then compile like Foretune's workers."""

from __future__ import annotations

from ...compiler.codegen.passes import improve_code
from ...compiler.tvm_compat import load_tensor_intrinsics


def prepare_builder() -> None:
    """Initializer of a `ms.builder.LocalBuilder`: `LocalBuilder(initializer=prepare_builder)`.

    The workers restart for each batch and import TVM's tensor intrinsics during their first build. A build
    may last 30 s. TVM's own import needs 20 to 37 s, this one 2 s. Programs that these workers build have the
    code changes of `improve_code`.
    """
    load_tensor_intrinsics()
    improve_code()
