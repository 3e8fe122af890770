"""Export of a PyTorch module to an ONNX file, for the engines that read this format."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from .base import NetworkSource


def missing() -> str:
    """Requirement of the export that is missing, and its remedy; "" if nothing is missing."""
    for module in ("onnx", "onnxscript"):
        if find_spec(module) is None:
            return f"{module} is not installed (pip install 'foretune[rivals]')"
    return ""


def export_onnx(source: NetworkSource, path: Path) -> None:
    """Exports the module of `source` for inputs of its shapes."""
    from ....compiler.networks.importing import onnx_export  # imports torch

    assert source.module is not None
    onnx_export.export_onnx(source.module, source.inputs, path)
