"""Engine of fixed shapes: each call takes the smallest of several libraries that its inputs fit into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from foretune.compiler.dynamic.symbols import extents_and_ranges
from foretune.inference.deploy.rivals.base import Bind, Call, Engine, Form, NetworkSource
from numpy.typing import NDArray

from ..common import read_json, write_json

ENGINE = f"{__name__}:Buckets"

Shape = Sequence[int | str]


@dataclass(frozen=True)
class Library:
    """A library for values of the symbols."""

    sizes: Mapping[str, int]
    file: str


@dataclass(frozen=True)
class Signature:
    """Shapes of inputs and outputs, with symbols as extents."""

    inputs: Sequence[Shape]
    outputs: Sequence[Shape]


def write_buckets(path: Path, signature: Signature, libraries: Sequence[Library]) -> None:
    """Describes libraries in the folder of `path` for `Buckets`."""
    write_json(path, {**asdict(signature), "libraries": [asdict(one) for one in libraries]})


def shape_at(shape: Shape, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Extents for values of the symbols."""
    extents, _ = extents_and_ranges(shape, "shape")
    return tuple(one if isinstance(one, int) else one.at(sizes[one.symbol]) for one in extents)


def sizes_of(shapes: Sequence[Shape], arrays: Sequence[NDArray[Any]]) -> dict[str, int]:
    """Values of the symbols for arrays of these shapes."""
    found: dict[str, int] = {}
    for shape, array in zip(shapes, arrays, strict=True):
        extents, _ = extents_and_ranges(shape, "shape")
        for extent, size in zip(extents, array.shape, strict=True):
            if not isinstance(extent, int) and (solved := extent.solved(size)) is not None:
                found[extent.symbol] = solved
    return found


def bucket_of(sizes: Mapping[str, int], highest: Mapping[str, int]) -> dict[str, int]:
    """The next powers of two, at most the largest sizes."""
    return {name: min(1 << (size - 1).bit_length(), highest[name]) for name, size in sizes.items()}


def smallest_for(sizes: Mapping[str, int], libraries: Sequence[Library]) -> Library:
    """The library with the fewest elements that the sizes fit into. Raises ValueError."""
    fitting = [one for one in libraries if all(one.sizes[name] >= size for name, size in sizes.items())]
    if not fitting:
        raise ValueError(f"no library for {dict(sizes)}")
    return min(fitting, key=lambda one: np.prod(list(one.sizes.values())))


class Buckets(Engine):
    """Pads the inputs with zeros, runs the library, and cuts its outputs; all libraries stay loaded."""

    title = "padded buckets"
    form = Form.LIBRARY
    module, package = "tvm", "apache-tvm"

    def prepare(self) -> None:
        """See Engine."""
        from foretune.inference.deploy import load  # noqa: F401

    def load(self, source: NetworkSource) -> Bind:
        """See Engine; `source.path` is a file of `write_buckets`."""
        from foretune.inference.deploy.load import load

        assert source.path is not None
        described, folder = read_json(source.path), source.path.parent
        libraries = [Library(**one) for one in described["libraries"]]
        networks = {one.file: load(folder / one.file, threads=self.threads) for one in libraries}

        def bind(inputs: tuple[NDArray[Any], ...]) -> Call:
            sizes = sizes_of(described["inputs"], inputs)
            library = smallest_for(sizes, libraries)
            network = networks[library.file]
            if dict(library.sizes) == sizes:
                return lambda: _as_tuple(network(*inputs))
            padded = [
                np.zeros(shape_at(shape, library.sizes), array.dtype)
                for shape, array in zip(described["inputs"], inputs, strict=True)
            ]
            kept = [_corner(shape_at(shape, sizes)) for shape in described["outputs"]]

            def call() -> Any:
                for into, array in zip(padded, inputs, strict=True):
                    into[_corner(array.shape)] = array
                outputs = _as_tuple(network(*padded))
                return [output[corner] for output, corner in zip(outputs, kept, strict=True)]

            return call

        return bind


def _as_tuple(outputs: Any) -> tuple[Any, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)


def _corner(shape: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(extent) for extent in shape)
