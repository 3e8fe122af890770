"""Networks of public zoos as entries of a sweep: random weights, no downloads.

torchvision and timm are installed as for the crawl of operators, `foretune.dataset.sampling.zoo.networks`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import torch
from foretune.compiler.networks.inputs import InputSpec
from foretune.dataset.sampling.zoo.networks import import_torchvision
from torch import nn

CONVOLUTIONAL = "convolutional"
MOBILE = "mobile"
ATTENTION = "vision attention"
DENSE = "segmentation, detection, pose"
VIDEO = "video"
TEXT = "text encoder"
GENERATIVE = "generative"
SEQUENCE = "speech and sequence"

OWN = "foretune"
"""Zoo of this package's own networks."""


@dataclass(frozen=True)
class Entry:
    """One network of the sweep."""

    zoo: str
    family: str
    build: Callable[[], nn.Module]
    inputs: tuple[InputSpec, ...]


class Called(nn.Module):
    """Network of transformers that accepts its named arguments by position."""

    def __init__(self, network: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.network = network
        self.names = names

    def forward(self, *values: torch.Tensor) -> Any:
        return self.network(**dict(zip(self.names, values, strict=True)))


class Heads(nn.Module):
    """Backbone and head of a detection network of torchvision; the later steps depend on values."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.backbone = network.backbone
        self.head = network.rpn.head if hasattr(network, "rpn") else network.head

    def forward(self, images: torch.Tensor) -> Any:
        return self.head(list(self.backbone(images).values()))


class Recurrent(nn.Module):
    """Two layers of one recurrent unit of PyTorch and a classifier of each step."""

    def __init__(self, unit: str, **options: Any) -> None:
        super().__init__()
        self.unit = getattr(nn, unit)(64, 128, num_layers=2, batch_first=True, **options)
        self.head = nn.Linear(256 if options.get("bidirectional") else 128, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.unit(x)[0])


def image(side: int) -> tuple[InputSpec, ...]:
    return ({"shape": [1, 3, side, side]},)


def tokens(vocabulary: int, length: int = 64) -> dict[str, Any]:
    return {"shape": [1, length], "dtype": "int64", "high": vocabulary}


def pytorchcv_network(module: str, factory: str, **options: Any) -> nn.Module:
    return getattr(import_module(f"pytorchcv.models.{module}"), factory)(**options)


def torchvision_network(path: str, **options: Any) -> nn.Module:
    import_torchvision()
    module, _, factory = path.rpartition(".")
    return getattr(import_module(f"torchvision.models{'.' if module else ''}{module}"), factory)(**options)


def timm_network(name: str, **options: Any) -> nn.Module:
    import_torchvision()
    import timm

    return timm.create_model(name, **options)


def _transformers(model: str, config: str, names: tuple[str, ...], settings: Mapping[str, Any]) -> nn.Module:
    with suppress(ImportError):  # transformers runs without torchvision, but not with one of another build
        import_torchvision()
    import transformers

    configuration = getattr(transformers, config)(**settings)
    for option in ("use_cache", "return_dict"):
        if hasattr(configuration, option):
            setattr(configuration, option, option == "return_dict")
    return Called(getattr(transformers, model)(configuration), names)


def from_pytorchcv(family: str, module: str, factory: str, side: int = 224, **options: Any) -> Entry:
    return Entry("pytorchcv", family, partial(pytorchcv_network, module, factory, **options), image(side))


def from_torchvision(family: str, path: str, side: int = 224, **options: Any) -> Entry:
    return Entry(
        "torchvision", family, partial(torchvision_network, path, weights=None, **options), image(side)
    )


def from_timm(family: str, name: str, side: int = 224) -> Entry:
    return Entry("timm", family, partial(timm_network, name), image(side))


def detector(path: str, side: int) -> Entry:
    def heads() -> nn.Module:
        return Heads(torchvision_network(path, weights=None, weights_backbone=None))

    return Entry("torchvision", DENSE, heads, image(side))


def from_transformers(
    family: str, name: str, inputs: Mapping[str, InputSpec], *, model: str = "Model", **settings: Any
) -> Entry:
    """`name` is the architecture's name, such as Bert for BertModel and BertConfig."""
    names = tuple(inputs)
    made = partial(_transformers, f"{name}{model}", f"{name}Config", names, settings)
    return Entry("transformers", family, made, tuple(inputs.values()))


def text(name: str, length: int = 64, model: str = "Model", family: str = TEXT, **settings: Any) -> Entry:
    """A text network of 512 words, with a few layers unless `settings` sets another number."""
    inputs = {"input_ids": tokens(512, length)}
    return from_transformers(family, name, inputs, model=model, vocab_size=512, **settings)


def vision(
    name: str, family: str = ATTENTION, side: int = 224, model: str = "Model", **settings: Any
) -> Entry:
    pixels = {"pixel_values": {"shape": [1, 3, side, side]}}
    return from_transformers(family, name, pixels, model=model, **settings)


def decoder(name: str, *, heads: int | None = 4, model: str = "Model", **settings: Any) -> Entry:
    """A text decoder of four layers of 256 channels, with grouped attention if the architecture has it."""
    small = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 512}
    grouped = {} if heads is None else {"num_key_value_heads": 2}
    return text(name, family=GENERATIVE, model=model, **{**small, **grouped, **settings})


SMALL = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
VIT = {**SMALL, "hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 768}
SEQ2SEQ = {
    "d_model": 256,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 512,
    "decoder_ffn_dim": 512,
}
BOTH_TEXTS = {"input_ids": tokens(512), "decoder_input_ids": tokens(512, 32)}
WAVE = {"input_values": {"shape": [1, 16000]}}
