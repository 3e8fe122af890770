"""Networks known by name: architectures with random weights, without downloads."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ...errors import UserError


class MissingExtraError(UserError, ImportError):
    """A package of an optional extra is missing."""


@dataclass(frozen=True)
class ZooEntry:
    """Constructor and inputs of one network."""

    build: Callable[[], nn.Module]
    inputs: tuple[Mapping[str, Any], ...]
    """Input specifications of batch 1, as `load_network` takes them."""


def draw_statistics(module: nn.Module) -> nn.Module:
    """Draws the statistics of every batch norm and returns the module.

    With fresh statistics of 0 and 1, an output check would miss a wrongly folded batch norm.
    """
    for layer in module.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.running_var is not None:
            assert layer.running_mean is not None
            layer.running_mean.normal_(0.0, 0.1)
            layer.running_var.uniform_(0.8, 1.25)
    return module


class HiddenStates(nn.Module):
    """Network of transformers that takes one tensor and returns its last hidden state alone."""

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
    """Classifier of pytorchcv, imported without its model provider, which needs torchvision."""

    def build() -> nn.Module:
        source = require_extra(f"pytorchcv.models.{module}", "networks", f"network={factory}")
        return getattr(source, factory)()

    return ZooEntry(build, ({"shape": [1, 3, size, size]},))


def _transformer(
    model: str, config: str, spec: Mapping[str, Any], *, pooler: bool = True, **settings: Any
) -> ZooEntry:
    """Network of transformers with plain attention, which exports as matmul and softmax.

    Args:
        pooler: whether the class has a pooler, which is left out.
    """

    def build() -> nn.Module:
        library = require_extra("transformers", "networks", f"network of class {model}")
        configuration = getattr(library, config)(attn_implementation="eager", **settings)
        options = {"add_pooling_layer": False} if pooler else {}
        return HiddenStates(getattr(library, model)(configuration, **options))

    return ZooEntry(build, (spec,))


def _dcgan() -> nn.Module:
    """Generator of DCGAN for images of 64 x 64 (Radford et al. 2016, Figure 1), with kernels of 4 x 4."""
    channels = (100, 1024, 512, 256, 128)
    layers: list[nn.Module] = []
    for number, (before, after) in enumerate(itertools.pairwise(channels)):
        stride, padding = (2, 1) if number else (1, 0)
        layers += [
            nn.ConvTranspose2d(before, after, 4, stride, padding, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers, nn.ConvTranspose2d(channels[-1], 3, 4, 2, 1), nn.Tanh())


def _tokens(vocabulary: int = 30522, length: int = 128) -> Mapping[str, Any]:
    return {"shape": [1, length], "dtype": "int64", "high": vocabulary}


ZOO: Mapping[str, ZooEntry] = {
    "alexnet": _image("alexnet", "alexnet"),
    "bert_base": _transformer("BertModel", "BertConfig", _tokens()),
    "bert_large": _transformer(
        "BertModel",
        "BertConfig",
        _tokens(),
        hidden_size=1024,
        num_hidden_layers=24,
        num_attention_heads=16,
        intermediate_size=4096,
    ),
    "bert_small": _transformer(
        "BertModel",
        "BertConfig",
        _tokens(),
        hidden_size=512,
        num_hidden_layers=4,
        num_attention_heads=8,
        intermediate_size=2048,
    ),
    "bert_tiny": _transformer(  # TenSet's, which is larger than the BERT-tiny of Turc et al. 2019
        "BertModel",
        "BertConfig",
        _tokens(),
        hidden_size=512,
        num_hidden_layers=6,
        num_attention_heads=8,
        intermediate_size=2048,
    ),
    "dcgan": ZooEntry(_dcgan, ({"shape": [1, 100, 1, 1]},)),
    "densenet121": _image("densenet", "densenet121"),
    "efficientnet_b0": _image("efficientnet", "efficientnet_b0"),
    "gpt2": _transformer("GPT2Model", "GPT2Config", _tokens(50257), pooler=False),
    "mnasnet": _image("mnasnet", "mnasnet_b1"),
    "mobilebert": _transformer("MobileBertModel", "MobileBertConfig", _tokens()),
    "mobilenetv1": _image("mobilenet", "mobilenet_w1"),
    "mobilenetv2": _image("mobilenetv2", "mobilenetv2_w1"),
    "mobilenetv3_large": _image("mobilenetv3", "mobilenetv3_large_w1"),
    "resnet18": _image("resnet", "resnet18"),
    "resnet34": _image("resnet", "resnet34"),
    "resnest50": _image("resnesta", "resnesta50"),
    "resnet50": _image("resnet", "resnet50"),
    "roberta_base": _transformer("RobertaModel", "RobertaConfig", _tokens(50265)),
    "resnext50": _image("resnext", "resnext50_32x4d"),
    "shufflenetv2": _image("shufflenetv2", "shufflenetv2_w1"),
    "squeezenet": _image("squeezenet", "squeezenet_v1_1"),
    "vgg16": _image("vgg", "vgg16"),
    "vit_base": _transformer("ViTModel", "ViTConfig", {"shape": [1, 3, 224, 224]}),
}
"""Networks by the name that `network=...` takes."""
