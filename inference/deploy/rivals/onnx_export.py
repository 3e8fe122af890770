"""Export of a PyTorch module to an ONNX file for the engines that read one."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from pathlib import Path

from .base import Source


def missing() -> str:
    """Requirement of the export that is lacking, and its remedy; "" where nothing is lacking."""
    for module in ("onnx", "onnxscript"):
        if find_spec(module) is None:
            return f"{module} is not installed (pip install 'foretune[rivals]')"
    return ""


def export_onnx(source: Source, path: Path) -> None:
    """Writes the module of `source`, for inputs of its shapes."""
    import torch

    assert source.module is not None
    inputs = tuple(torch.from_numpy(array) for array in source.inputs)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # deprecations inside the exporter, which users cannot act on
        torch.onnx.export(source.module, inputs, str(path), dynamo=True, verbose=False)
