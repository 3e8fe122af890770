"""Export of a PyTorch module to an ONNX file."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn


def export_onnx(
    module: nn.Module,
    inputs: Sequence[NDArray[Any]],
    path: Path,
    *,
    one_file: bool = False,
    dynamic_shapes: Sequence[Any] | None = None,
) -> None:
    """Writes the module for inputs of these shapes, or of `dynamic_shapes` in the form of `torch.export`.

    With `one_file`, weights are in the same file.
    """
    tensors = tuple(torch.from_numpy(array) for array in inputs)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # deprecations inside the exporter, which users cannot act on
        torch.onnx.export(
            *(module, tensors, str(path)),
            dynamo=True,
            verbose=False,
            external_data=not one_file,
            dynamic_shapes=None if dynamic_shapes is None else tuple(dynamic_shapes),
        )
