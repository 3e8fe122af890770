"""Networks of public model zoos for the crawl, built from installed packages without downloads.

torchvision and timm are installed without their dependencies, which would replace a CPU build of PyTorch:
`pip install --no-deps torchvision==0.28.0 timm==1.0.31`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import nn

from .operator_log import NetworkFactory
from .transformers import TENSET_BERT_TINY, default_networks, sized_networks, transformer

IMAGE = (3, 224, 224)

_FROM_FEATURES, _TO_HEATMAP = {"from_audio": False}, {"return_heatmap": True}
PYTORCHCV_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    **dict.fromkeys(("jasper", "jasperdr", "quartznet"), _FROM_FEATURES),
    **dict.fromkeys(("alphapose_coco", "simplepose_coco", "simpleposemobile_coco"), _TO_HEATMAP),
}
"""Options by module of pytorchcv that leave out steps outside PyTorch and steps that depend on values."""

AUDIO_FRAMES = 400
"""Four seconds of speech as features every 10 ms."""

DETECTOR_SIDE, SEGMENTATION_SIDE = 512, 520

VIDEO_FRAMES, VIDEO_SIDE, VIDEO_RESNET_SIDE = 16, 224, 112

UNTRACED_TORCHVISION = "quantized_"
"""Networks of torchvision that only run on quantised numbers."""


def pytorchcv_networks() -> Iterator[tuple[str, NetworkFactory]]:
    """Every network of pytorchcv's model modules with its default arguments, on its own image size."""
    import pytorchcv.models

    for info in pkgutil.iter_modules(pytorchcv.models.__path__):
        module = importlib.import_module(f"pytorchcv.models.{info.name}")
        options = PYTORCHCV_OPTIONS.get(info.name, {})
        for name in getattr(module, "__all__", ()):
            exported = getattr(module, name)
            if inspect.isfunction(exported) and not name.startswith("get_") and _needs_no_argument(exported):
                yield name, partial(_pytorchcv_network, exported, options)


def _needs_no_argument(function: Callable[..., Any]) -> bool:
    """Distinguishes a network's constructor from the helpers that pytorchcv exports in the same modules."""
    optional = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    parameters = inspect.signature(function).parameters.values()
    return all(p.kind in optional or p.default is not p.empty for p in parameters)


def _pytorchcv_network(
    constructor: Callable[..., nn.Module], options: Mapping[str, Any]
) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    network = constructor(**options)
    if options == _FROM_FEATURES:  # of each frame, and how many frames
        first = next(module for module in network.modules() if isinstance(module, nn.Conv1d))
        return network, (torch.empty(1, first.in_channels, AUDIO_FRAMES), torch.empty(1, dtype=torch.long))
    return network, (torch.empty(1, 3, *getattr(network, "in_size", IMAGE[1:])),)


def timm_networks() -> Iterator[tuple[str, NetworkFactory]]:
    """Every architecture of timm on its native image size, with attention as plain matrix products."""
    import_torchvision()
    import timm

    for name in timm.list_models():
        yield f"timm.{name}", partial(_timm_network, name)


def _timm_network(name: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    import timm
    from timm.layers import set_fused_attn

    set_fused_attn(False)
    network = timm.create_model(name)
    return network, (torch.empty(1, *network.default_cfg["input_size"]),)


def torchvision_networks() -> Iterator[tuple[str, NetworkFactory]]:
    """Classification, segmentation, video and the convolutional part of detection networks of torchvision."""
    import_torchvision()
    from torchvision import models

    for name in models.list_models():
        if not name.startswith(UNTRACED_TORCHVISION):
            yield f"torchvision.{name}", partial(_torchvision_network, name)


def _torchvision_network(name: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    from torchvision import models

    builder = models.get_model_builder(name)
    options = {
        option: None
        for option in ("weights", "weights_backbone")
        if option in inspect.signature(builder).parameters
    }
    network = builder(**options)
    kind = builder.__module__.removeprefix("torchvision.models.").partition(".")[0]
    if kind == "detection":
        side = DETECTOR_SIDE
        return _Detector(network), (torch.empty(1, 3, side, side),)
    if kind == "optical_flow":
        images = torch.empty(1, 3, SEGMENTATION_SIDE, SEGMENTATION_SIDE)
        return network, (images, images)
    if kind == "video":
        side = VIDEO_RESNET_SIDE if builder.__module__.endswith("resnet") else VIDEO_SIDE
        return network, (torch.empty(1, 3, VIDEO_FRAMES, side, side),)
    side = SEGMENTATION_SIDE if kind == "segmentation" else IMAGE[-1]
    return network, (torch.empty(1, 3, side, side),)


class _Detector(nn.Module):
    """Backbone and head of a detection network, which run on whole images; later steps depend on values."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.backbone = network.backbone
        self.head = network.rpn.head if hasattr(network, "rpn") else network.head

    def forward(self, images: torch.Tensor) -> Any:
        features = self.backbone(images)
        return self.head(list(features.values()) if isinstance(features, Mapping) else [features])


def import_torchvision() -> None:
    """Imports torchvision, even if its compiled part does not fit this build of PyTorch.

    Its modules register the shapes of two operators on import, which fails if the operators are missing.
    """
    try:
        import torchvision
    except RuntimeError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        for name in ("nms", "qnms"):
            signature = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            torch.library.define(f"torchvision::{name}", signature)
        import torchvision  # noqa: F401


def transformers_networks() -> Iterator[tuple[str, NetworkFactory]]:
    """Networks of transformers, built from configurations."""
    with suppress(ImportError):  # transformers runs without torchvision, but not with a broken one
        import_torchvision()
    import transformers  # noqa: F401

    yield from chain(default_networks(), sized_networks())


ZOOS: Mapping[str, Callable[[], Iterator[tuple[str, NetworkFactory]]]] = {
    "pytorchcv": pytorchcv_networks,
    "torchvision": torchvision_networks,
    "transformers": transformers_networks,
    "timm": timm_networks,
}


def evaluation_networks() -> Iterator[tuple[str, NetworkFactory]]:
    """The networks that benchmarks tune, and TenSet's test networks, on which cost models are compared."""
    wanted = ("resnet18", "mobilenetv2_w1", "resnet50", "resnext50_32x4d")
    yield from ((name, factory) for name, factory in pytorchcv_networks() if name in wanted)
    yield "bert_base_len128", partial(transformer, "Bert", {}, (1, 128), torch.long)
    yield "tenset_bert_tiny_len128", partial(transformer, "Bert", TENSET_BERT_TINY, (1, 128), torch.long)
