"""Networks of the benchmark, their symbols, and the sizes at which they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from foretune.compiler.networks import Network, load_network
from foretune.compiler.networks.dynamic.dynamic_inputs import DynamicInputs, Sizes, dynamic_inputs
from foretune.compiler.networks.inputs import example_inputs
from numpy.typing import NDArray

from .buckets import Shape, Signature

SEED = 0

PADDING_CHANGES = "padding the image changes the outputs near its border"


@dataclass(frozen=True)
class Subject:
    """A network with ranges of sizes."""

    network: str
    """Name or import path, see `load_network`."""
    inputs: Sequence[Any]
    """Specifications with symbols as extents."""
    dims: Mapping[str, str]
    """Range of each symbol."""
    sizes: Sequence[Sizes]
    """Sizes at which all engines run."""
    references: Sequence[Sizes]
    """Sizes with libraries of their own, the reference for the regret."""
    outputs: Sequence[Shape] = ()
    """Shape of each output, to cut it after padding."""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    ones: Sequence[int] = ()
    """Positions of inputs whose elements are 1: masks of whole sequences."""
    unpadded: str = ""
    """Reason why inputs cannot be padded, or ""."""

    @cached_property
    def dynamic(self) -> DynamicInputs:
        return dynamic_inputs(**self.dynamic_arguments)

    @property
    def dynamic_arguments(self) -> dict[str, Any]:
        """Arguments of `dynamic_inputs`, JSON values."""
        return {"network": self.network, "inputs": self.inputs, "batch": 1, "dims": dict(self.dims)}

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of `load_network`, JSON values."""
        inputs = self.dynamic.at(self.dynamic.traced)
        return {
            "name_or_path": self.network,
            "inputs": inputs,
            "seed": SEED,
            "kwargs": dict(self.kwargs) or None,
        }

    @property
    def signature(self) -> Signature:
        shapes = [one["shape"] if isinstance(one, Mapping) else one for one in self.inputs]
        return Signature(shapes, self.outputs)

    @property
    def highest(self) -> dict[str, int]:
        """Largest value of each symbol."""
        return {name: symbol.high for name, symbol in self.dynamic.symbols.items()}

    def load(self) -> Network:
        return load_network(**self.arguments)

    def draw(self, sizes: Sizes) -> tuple[NDArray[Any], ...]:
        """Inputs for values of the symbols."""
        arrays = example_inputs(self.dynamic.at(sizes), SEED)
        return tuple(
            np.ones_like(array) if position in self.ones else array for position, array in enumerate(arrays)
        )

    def words(self, sizes: Sizes | None = None) -> list[str]:
        """Options of `foretune tune` for the whole range, or for fixed sizes."""
        inputs = self.inputs if sizes is None else self.dynamic.at(sizes)
        dims = [f"dims.{name}={given}" for name, given in self.dims.items()] if sizes is None else []
        kwargs = [f"kwargs={as_word(dict(self.kwargs))}"] if self.kwargs else []
        return [f"network={self.network}", f"inputs={as_word(inputs)}", f"seed={SEED}", *dims, *kwargs]


def as_word(value: Any) -> str:
    """A JSON value in Hydra's grammar."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{name}:{as_word(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(as_word, value)) + "]"
    if isinstance(value, str):
        return f'"{value}"'
    return str(value).lower() if isinstance(value, bool) else str(value)


def grid(**sizes: Sequence[int]) -> list[Sizes]:
    """Sizes whose symbols take their values side by side; a single value serves all."""
    count = max(map(len, sizes.values()))
    columns = {name: values if len(values) > 1 else [*values] * count for name, values in sizes.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


MODULES = f"{__package__}.modules"

LENGTHS = [1, 2, 3, 5, 7, 11, 16, 17, 24, 31, 32, 37, 48, 64, 65, 97, 128, 131, 192, 256, 257, 384, 509, 512]
BATCHES = {"b": [16, 8, 16, 2, 4, 3, 8], "n": [7, 17, 32, 31, 64, 101, 128]}
IMAGES = [1, 2, 3, 4, 5, 7, 8, 11, 13, 16]


def _encoder(hidden: int, layers: int, heads: int, vocabulary: int = 30522) -> Subject:
    return Subject(
        network=f"{MODULES}:encoder",
        kwargs={"hidden": hidden, "layers": layers, "heads": heads},
        inputs=[
            {"shape": ["b", "n"], "dtype": "int64", "high": vocabulary},
            {"shape": ["b", "n"], "dtype": "int64"},
        ],
        dims={"b": "1:16", "n": "1:512"},
        outputs=[["b", "n", hidden]],
        sizes=[*grid(b=[1], n=LENGTHS), *grid(**BATCHES)],
        references=grid(b=[1, 1, 1, 1, 1, 4], n=[7, 32, 97, 128, 257, 64]),
        ones=[1],
    )


def _batches(network: str) -> Subject:
    return Subject(
        network=network,
        inputs=[["b", 3, 224, 224]],
        dims={"b": "1:16"},
        outputs=[["b", 1000]],
        sizes=grid(b=IMAGES),
        references=grid(b=[1, 3, 4, 7, 8, 13]),
    )


def _text_line(recurrent: bool) -> Subject:
    return Subject(
        network=f"{MODULES}:text_line",
        kwargs={"recurrent": True} if recurrent else {},
        inputs=[["b", 1, 32, "w"]],
        dims={"b": "1:8", "w": "16:1024"},
        sizes=grid(b=[*[1] * 8, 4, 8], w=[16, 41, 101, 160, 251, 384, 773, 1024, 293, 512]),
        references=grid(b=[1, 1, 1, 1, 1, 4], w=[41, 160, 251, 384, 773, 293]),
        unpadded=PADDING_CHANGES,
    )


SUBJECTS: Mapping[str, Callable[[], Subject]] = {
    "minilm": lambda: _encoder(hidden=384, layers=6, heads=12),
    "bert_base": lambda: _encoder(hidden=768, layers=12, heads=12),
    "gpt2": lambda: Subject(
        network="gpt2",
        inputs=[{"shape": [1, "n"], "dtype": "int64", "high": 50257}],
        dims={"n": "1:512"},
        outputs=[[1, "n", 768]],
        sizes=grid(n=[1, 7, 16, 31, 64, 97, 128, 257, 384, 512]),
        references=grid(n=[7, 31, 64, 97, 128, 257]),
    ),
    "text_line": lambda: _text_line(recurrent=False),
    "crnn": lambda: _text_line(recurrent=True),
    "resnet50": lambda: _batches("resnet50"),
    "mobilenetv2": lambda: _batches("mobilenetv2"),
    "segmentation": lambda: Subject(
        network=f"{MODULES}:segmentation",
        inputs=[[1, 3, "h", "w"]],
        dims={"h": "16:384", "w": "16:384"},
        sizes=grid(h=[32, 83, 112, 160, 224, 211, 256, 320], w=[32, 128, 109, 240, 224, 307, 256, 320]),
        references=grid(h=[32, 83, 112, 160, 224, 211], w=[32, 128, 109, 240, 224, 307]),
        unpadded=PADDING_CHANGES,
    ),
}
"""Networks by their name in results."""


def dry_subject() -> Subject:
    """Tiny network, for tests; both of its sizes run in one bucket."""
    return Subject(
        network=f"{MODULES}:tiny",
        inputs=[["b", 16]],
        dims={"b": "1:8"},
        outputs=[["b", 8]],
        sizes=grid(b=[7, 8]),
        references=grid(b=[8]),
    )
