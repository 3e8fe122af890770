"""Initializer for the workers of MetaSchedule's own builder, so that they compile as foretune's do."""

from __future__ import annotations

from ...compiler.codegen.passes import improve_code
from ...compiler.tvm_compat import load_tensor_intrinsics


def prepare_builder() -> None:
    """Initializer of a `ms.builder.LocalBuilder`: `LocalBuilder(initializer=prepare_builder)`.

    The workers start anew for each batch and import TVM's tensor intrinsics while their first program waits:
    TVM's own import takes 20-37 s of the 30 s that a build may take, this one 2 s. Programs that they build
    have what `improve_code` adds.
    """
    load_tensor_intrinsics()
    improve_code()
