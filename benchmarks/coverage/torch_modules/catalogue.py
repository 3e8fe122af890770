"""All modules of the suite as cases."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any

import ml_dtypes
import torch
from foretune.compiler.networks import Network
from foretune.compiler.networks.outputs import output_tensors
from numpy.typing import NDArray

from ..cases import Case, Subject
from .making import Table, module_of

FAMILIES: Mapping[str, str] = {
    "indexing": "indexing and assignment",
    "scatter": "gather and scatter",
    "reductions": "reductions and running sums",
    "pointwise": "pointwise arithmetic",
    "activations": "activations",
    "normalisation": "normalisation",
    "convolution": "convolution",
    "pooling": "pooling and padding",
    "resizing": "resizing and sampling",
    "recurrent": "recurrent",
    "attention": "attention",
    "sorting": "sorting",
    "shapes": "shape manipulation",
    "types": "data types",
    "algebra": "linear algebra",
    "losses": "losses",
    "embeddings": "embeddings",
    "fourier": "Fourier and complex",
    "patterns": "patterns of code",
}
"""Modules of this folder with a TABLE, and their names in a result."""


def table(family: str) -> Table:
    found: Table = import_module(f"{__package__}.{family}").TABLE
    return found


def subject(family: str, name: str) -> Subject:
    """The module of one case with its inputs, and PyTorch's outputs."""
    entry = table(family)[name]
    network = Network(name, tuple(tensor.numpy() for tensor in entry[1:]), module_of(entry))
    with torch.inference_mode():
        found = output_tensors(network.module(*(tensor.clone() for tensor in entry[1:])))
    types = {tensor.dtype for tensor in found}
    rounded = name.startswith(("bfloat16", "autocast"))  # which return float32
    relative, absolute = (2e-2, 1e-2) if rounded else (5e-3, 1e-3) if torch.float16 in types else (1e-3, 1e-5)
    return Subject(network, [_array(tensor) for tensor in found], relative, absolute)


def _array(tensor: torch.Tensor) -> NDArray[Any]:
    if tensor.dtype == torch.bfloat16:
        return tensor.float().numpy().astype(ml_dtypes.bfloat16)
    return tensor.numpy()


def cases() -> list[Case]:
    """All cases in the order of the families."""
    return [
        Case(f"{family}/{name}", said, partial(subject, family, name))
        for family, said in FAMILIES.items()
        for name in table(family)
    ]
