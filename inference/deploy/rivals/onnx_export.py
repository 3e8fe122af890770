"""Export of a PyTorch module to an ONNX file, for the engines that read this format."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .base import NetworkSource


def missing() -> str:
    """Requirement of the export that is missing, and its remedy; "" if nothing is missing."""
    for module in ("onnx", "onnxscript"):
        if find_spec(module) is None:
            return f"{module} is not installed (pip install 'foretune[rivals]')"
    return ""


def export_onnx(source: NetworkSource, path: Path, dynamic: Mapping[str, Any] | None = None) -> None:
    """Exports the module of `source` for inputs of its shapes, or of `dynamic`: see `dynamic_inputs`."""
    from ....compiler.networks.dynamic.dynamic_inputs import dynamic_inputs  # these import torch
    from ....compiler.networks.dynamic.symbolic_export import dynamic_shapes
    from ....compiler.networks.importing import onnx_export

    assert source.module is not None
    shapes = None if dynamic is None else dynamic_shapes(dynamic_inputs(**dynamic))
    onnx_export.export_onnx(source.module, source.inputs, path, dynamic_shapes=shapes)
