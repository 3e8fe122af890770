"""Networks known by name: architectures of installed packages with random weights, nothing downloaded."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ...errors import UserError


class MissingExtraError(UserError, ImportError):
    """A package that only an optional extra installs is needed."""


@dataclass(frozen=True)
class ZooEntry:
    """How to build one network and what to feed it."""

    build: Callable[[], nn.Module]
    inputs: tuple[Mapping[str, Any], ...]
    """Input specifications of batch 1, as `load_network` takes them."""


class HiddenStates(nn.Module):
    """A transformers encoder whose forward takes one tensor and returns its last hidden state alone."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.encoder(inputs, use_cache=False).last_hidden_state


def require_extra(module: str, extra: str, needed_by: str) -> Any:
    """Imports `module`, or raises MissingExtraError that names the extra to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{needed_by} needs {module.partition('.')[0]} ({error}): pip install 'foretune[{extra}]'"
        ) from error


def _image(module: str, factory: str, size: int = 224) -> ZooEntry:
    """A pytorchcv classifier. Its single-model modules do not import torchvision; its model provider does."""

    def build() -> nn.Module:
        source = require_extra(f"pytorchcv.models.{module}", "networks", f"network={factory}")
        return getattr(source, factory)()

    return ZooEntry(build, ({"shape": [1, 3, size, size]},))


def _transformer(model: str, config: str, spec: Mapping[str, Any], **settings: Any) -> ZooEntry:
    """A transformers encoder without pooler, with the plain attention that exports as matmul and softmax."""

    def build() -> nn.Module:
        library = require_extra("transformers", "networks", f"network of class {model}")
        configuration = getattr(library, config)(attn_implementation="eager", **settings)
        return HiddenStates(getattr(library, model)(configuration, add_pooling_layer=False))

    return ZooEntry(build, (spec,))


def _tokens(vocabulary: int = 30522, length: int = 128) -> Mapping[str, Any]:
    return {"shape": [1, length], "dtype": "int64", "high": vocabulary}


ZOO: Mapping[str, ZooEntry] = {
    "alexnet": _image("alexnet", "alexnet"),
    "bert_base": _transformer("BertModel", "BertConfig", _tokens()),
    "bert_small": _transformer(
        "BertModel",
        "BertConfig",
        _tokens(),
        hidden_size=512,
        num_hidden_layers=4,
        num_attention_heads=8,
        intermediate_size=2048,
    ),
    "densenet121": _image("densenet", "densenet121"),
    "efficientnet_b0": _image("efficientnet", "efficientnet_b0"),
    "mobilenetv1": _image("mobilenet", "mobilenet_w1"),
    "mobilenetv2": _image("mobilenetv2", "mobilenetv2_w1"),
    "mobilenetv3_large": _image("mobilenetv3", "mobilenetv3_large_w1"),
    "resnet18": _image("resnet", "resnet18"),
    "resnet34": _image("resnet", "resnet34"),
    "resnet50": _image("resnet", "resnet50"),
    "resnext50": _image("resnext", "resnext50_32x4d"),
    "shufflenetv2": _image("shufflenetv2", "shufflenetv2_w1"),
    "squeezenet": _image("squeezenet", "squeezenet_v1_1"),
    "vgg16": _image("vgg", "vgg16"),
    "vit_base": _transformer("ViTModel", "ViTConfig", {"shape": [1, 3, 224, 224]}),
}
"""Name -> how to build it. The names are the ones of `network=...` on the command line."""
