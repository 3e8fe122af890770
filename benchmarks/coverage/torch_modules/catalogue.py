"""All modules of the suite as cases."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import import_module

from foretune.compiler.networks import Network

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

_ROUNDED = ("types/bfloat16", "types/autocast")
"""Cases that compute in bfloat16 and return float32."""


def table(family: str) -> Table:
    found: Table = import_module(f"{__package__}.{family}").TABLE
    return found


def subject(family: str, name: str) -> Subject:
    """The module of one case with its inputs."""
    entry = table(family)[name]
    network = Network(name, tuple(tensor.numpy() for tensor in entry[1:]), module_of(entry))
    rounded = f"{family}/{name}".startswith(_ROUNDED)
    return Subject(network, relative=2e-2 if rounded else 1e-3, absolute=1e-2 if rounded else 1e-5)


def cases() -> list[Case]:
    """All cases in the order of the families."""
    return [
        Case(f"{family}/{name}", said, partial(subject, family, name))
        for family, said in FAMILIES.items()
        for name in table(family)
    ]
