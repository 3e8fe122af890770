"""Crawls model zoos for operator settings: `python -m foretune.dataset.zoo_crawl`.

One-Shot Tuner (section 4.1.1) takes its prior over tasks from public model zoos. Networks are built on the
`meta` device, so nothing is downloaded, no weight has memory, and a forward pass only passes shapes.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import pkgutil
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from .operators import BatchMatmul, Conv2d, Dense, DepthwiseConv2d, OperatorSettings, SettingsError
from .zoo_table import ZOO_TABLE, ZooRow, common_shares, write_zoo_table

NetworkFactory: TypeAlias = Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]
"""Builds a network and its example inputs of batch 1 under `torch.device("meta")`."""

NOT_COUNTED = re.compile(r"resnet[a-z]*18(?!\d)|mobilenetv2|bert_base")
"""Networks that benchmarks tune and their variants (other widths, attention blocks between the same
convolutions): they do not count, or the prior would follow what it is tested on."""

RELABELLED = re.compile(r"_(cifar100|svhn|cub)$")
"""Variants that differ from another network only in the number of classes; they would count it twice."""


class OperatorLog(TorchDispatchMode):
    """Counts the operators that PyTorch runs while the mode is on, and those it cannot describe."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[OperatorSettings] = Counter()
        self.skipped: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        read = _READERS.get(func.overloadpacket)
        if read is not None:
            try:
                self.calls[read(*args)] += 1
            except SettingsError as error:
                self.skipped[str(error)] += 1
        return func(*args, **(kwargs or {}))


def _convolution(
    data: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> OperatorSettings:
    if transposed or data.dim() != 4:
        raise SettingsError("transposed, 1-D or 3-D convolution")
    batch, in_channels, height, width = data.shape
    out_channels = weight.shape[0]
    window = {"kernel": weight.shape[2:], "stride": stride, "padding": padding, "dilation": dilation}
    # A convolution gives one number for both directions as a list of one.
    pairs: dict[str, Any] = {k: (v[0], v[-1]) for k, v in window.items()}
    size: dict[str, Any] = {"batch": batch, "in_channels": in_channels, "height": height, "width": width}
    if groups == in_channels == out_channels > 1:
        return DepthwiseConv2d(**size, **pairs)
    if groups > 1:
        raise SettingsError("grouped convolution")
    return Conv2d(**size, **pairs, out_channels=out_channels)


def _dense(data: torch.Tensor, weight: torch.Tensor) -> OperatorSettings:
    return Dense(rows=data.shape[0], in_features=data.shape[1], out_features=weight.shape[1])


def _batch_matmul(left: torch.Tensor, right: torch.Tensor) -> OperatorSettings:
    batch, rows, inner = left.shape
    return BatchMatmul(batch=batch, rows=rows, inner=inner, columns=right.shape[2])


_READERS: Mapping[Any, Callable[..., OperatorSettings]] = {
    torch.ops.aten.convolution: _convolution,
    torch.ops.aten.mm: _dense,
    torch.ops.aten.addmm: lambda bias, data, weight: _dense(data, weight),
    torch.ops.aten.bmm: _batch_matmul,
    torch.ops.aten.baddbmm: lambda bias, left, right: _batch_matmul(left, right),
}


def log_operators(factory: NetworkFactory) -> OperatorLog:
    """Builds a network on the meta device and runs it once in evaluation mode."""
    with torch.device("meta"), torch.no_grad():
        network, inputs = factory()
        with OperatorLog() as log:
            network.eval()(*inputs)
    return log


def pytorchcv_networks() -> Iterator[tuple[str, NetworkFactory]]:
    """Every network of pytorchcv's model modules with its default arguments, on its own image size."""
    import pytorchcv.models

    for info in pkgutil.iter_modules(pytorchcv.models.__path__):
        module = importlib.import_module(f"pytorchcv.models.{info.name}")
        for name in getattr(module, "__all__", ()):
            exported = getattr(module, name)
            if inspect.isfunction(exported) and not name.startswith("get_") and _needs_no_argument(exported):
                yield name, partial(_image_network, exported)


def _needs_no_argument(function: Callable[..., Any]) -> bool:
    """Tells a network's constructor from the helpers that pytorchcv exports beside it."""
    optional = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    parameters = inspect.signature(function).parameters.values()
    return all(p.kind in optional or p.default is not p.empty for p in parameters)


def _image_network(constructor: Callable[[], nn.Module]) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    network = constructor()
    return network, (torch.empty(1, 3, *getattr(network, "in_size", (224, 224))),)


def transformers_networks() -> Iterator[tuple[str, NetworkFactory]]:
    """Transformers of transformers, built from configurations; attention is plain matrix products."""
    for name, architecture, tokens, options in TEXT_NETWORKS:
        yield (
            f"{name}_len{tokens}",
            partial(_transformer, architecture, options, (1, tokens), torch.long),
        )
    for name, architecture, size, options in VISION_NETWORKS:
        yield name, partial(_transformer, architecture, options, (1, 3, size, size), torch.float32)


def _transformer(
    architecture: str, options: Mapping[str, Any], shape: tuple[int, ...], dtype: torch.dtype
) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    import transformers

    config = getattr(transformers, f"{architecture}Config")(attn_implementation="eager", **options)
    return getattr(transformers, f"{architecture}Model")(config), (torch.empty(shape, dtype=dtype),)


def _encoder(width: int, layers: int) -> dict[str, int]:
    """Sizes of an encoder with 64-wide heads and a feed-forward part four times as wide."""
    return {
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": width // 64,
        "intermediate_size": 4 * width,
    }


BERT_LARGE = _encoder(1024, 24)

TEXT_NETWORKS: Sequence[tuple[str, str, int, Mapping[str, Any]]] = [
    ("bert_tiny", "Bert", 128, _encoder(128, 2)),
    ("bert_mini", "Bert", 128, _encoder(256, 4)),
    ("bert_mini", "Bert", 384, _encoder(256, 4)),
    ("bert_small", "Bert", 64, _encoder(512, 4)),
    ("bert_small", "Bert", 128, _encoder(512, 4)),
    ("bert_medium", "Bert", 256, _encoder(512, 8)),
    ("bert_large", "Bert", 64, BERT_LARGE),
    ("bert_large", "Bert", 128, BERT_LARGE),
    ("bert_large", "Bert", 384, BERT_LARGE),
    ("roberta_large", "Roberta", 256, BERT_LARGE),
    ("electra_small", "Electra", 128, {}),
    ("mobilebert", "MobileBert", 128, {}),
    ("albert_large", "Albert", 128, BERT_LARGE),
    ("gpt2", "GPT2", 64, {}),
    ("gpt2", "GPT2", 256, {}),
    ("gpt2_medium", "GPT2", 128, {"n_embd": 1024, "n_layer": 24, "n_head": 16}),
    ("gpt2_large", "GPT2", 64, {"n_embd": 1280, "n_layer": 36, "n_head": 20}),
    ("opt_350m", "OPT", 128, {"hidden_size": 1024, "num_hidden_layers": 24, "ffn_dim": 4096,
                              "num_attention_heads": 16}),
    ("pythia_70m", "GPTNeoX", 128, {"hidden_size": 512, "num_hidden_layers": 6, "intermediate_size": 2048,
                                    "num_attention_heads": 8}),
    ("qwen2_0.5b", "Qwen2", 64, {"hidden_size": 896, "num_hidden_layers": 24, "intermediate_size": 4864,
                                 "num_attention_heads": 14, "num_key_value_heads": 2}),
    ("smollm_135m", "Llama", 128, {"hidden_size": 576, "num_hidden_layers": 30, "intermediate_size": 1536,
                                   "num_attention_heads": 9, "num_key_value_heads": 3}),
    ("smollm_360m", "Llama", 64, {"hidden_size": 960, "num_hidden_layers": 32, "intermediate_size": 2560,
                                  "num_attention_heads": 15, "num_key_value_heads": 5}),
]  # fmt: skip
"""Name, architecture, tokens of the input, configuration where it is not the default."""

VISION_NETWORKS: Sequence[tuple[str, str, int, Mapping[str, Any]]] = [
    ("vit_tiny", "ViT", 224, _encoder(192, 12)),
    ("vit_small", "ViT", 224, _encoder(384, 12)),
    ("vit_base", "ViT", 224, {}),
    ("vit_base_32", "ViT", 224, {"patch_size": 32}),
    ("vit_large", "ViT", 224, _encoder(1024, 24)),
    ("dinov2_small", "Dinov2", 224, {**_encoder(384, 12), "image_size": 224, "patch_size": 14}),
    ("swin_tiny", "Swin", 224, {}),
    ("swin_base", "Swin", 224, {"embed_dim": 128, "depths": [2, 2, 18, 2], "num_heads": [4, 8, 16, 32]}),
    ("convnext_tiny", "ConvNext", 224, {}),
    ("convnext_base", "ConvNext", 224, {"hidden_sizes": [128, 256, 512, 1024], "depths": [3, 3, 27, 3]}),
    ("segformer_b0", "Segformer", 512, {}),
    ("segformer_b2", "Segformer", 512, {"hidden_sizes": [64, 128, 320, 512], "depths": [3, 4, 6, 3]}),
    ("mobilevit_small", "MobileViT", 256, {}),
    ("poolformer_s12", "PoolFormer", 224, {}),
    ("cvt_13", "Cvt", 224, {}),
    ("pvt_tiny", "Pvt", 224, {}),
    ("levit_128s", "Levit", 224, {}),
    ("swiftformer_xs", "SwiftFormer", 224, {}),
    ("regnet_y040", "RegNet", 224, {}),
]
"""Name, architecture, side of the square image, configuration where it is not the default."""


def evaluation_networks() -> Iterator[tuple[str, NetworkFactory]]:
    """The networks that benchmarks tune."""
    wanted = ("resnet18", "mobilenetv2_w1")
    yield from ((name, factory) for name, factory in pytorchcv_networks() if name in wanted)
    yield "bert_base_len128", partial(_transformer, "Bert", {}, (1, 128), torch.long)


@dataclass(frozen=True)
class Crawl:
    """What a crawl found."""

    rows: list[ZooRow]
    networks: int
    failed: Mapping[str, str]
    """Networks that did not run on the meta device, and why."""
    skipped: Mapping[str, int]
    """Calls of operators that have no settings class, by reason."""


def crawl(
    networks: Iterable[tuple[str, NetworkFactory]], evaluation: Iterable[tuple[str, NetworkFactory]] = ()
) -> Crawl:
    """Logs the networks, and marks the operators that an `evaluation` network has; rows in a fixed order.

    Of `networks`, those of NOT_COUNTED and RELABELLED are passed over.
    """
    calls: Counter[OperatorSettings] = Counter()
    callers: defaultdict[OperatorSettings, list[str]] = defaultdict(list)
    skipped: Counter[str] = Counter()
    failed: dict[str, str] = {}
    crawled = 0
    for name, factory in networks:
        if NOT_COUNTED.search(name) or RELABELLED.search(name):
            continue
        try:
            log = log_operators(factory)
        except Exception as error:  # whatever a network of a zoo raises on shapes without values
            failed[name] = f"{type(error).__name__}: {error}"
            continue
        crawled += 1
        skipped += log.skipped
        calls += log.calls
        for settings in log.calls:
            callers[settings].append(name)
    testers: defaultdict[OperatorSettings, list[str]] = defaultdict(list)
    for name, factory in evaluation:
        for settings in log_operators(factory).calls:
            testers[settings].append(name)
    rows = [
        ZooRow(s, calls[s], len(callers[s]), tuple(callers[s][:3]), tuple(testers[s]))
        for s in {**callers, **testers}
    ]
    rows.sort(key=lambda row: (row.settings.operator, -row.networks, row.settings.label))
    return Crawl(rows, crawled, failed, skipped)


def main(argv: Sequence[str] | None = None) -> None:
    """Writes the table and says what it holds."""
    parser = argparse.ArgumentParser(prog="python -m foretune.dataset.zoo_crawl", description=__doc__)
    parser.add_argument("--output", type=Path, default=ZOO_TABLE, help="CSV file to write (%(default)s)")
    output = parser.parse_args(argv).output
    started = time.monotonic()
    found = crawl(chain(pytorchcv_networks(), transformers_networks()), evaluation_networks())
    write_zoo_table(found.rows, output)
    print(f"{output}: {len(found.rows)} operators of {found.networks} networks", end="")
    print(f" in {time.monotonic() - started:.0f} s; {len(found.failed)} networks failed")
    for operator, count in Counter(row.settings.operator for row in found.rows).items():
        print(f"  {operator}: {count}")
    for reason, count in found.skipped.items():
        print(f"  not in the table: {count} calls, {reason}")
    for name, share in common_shares(found.rows).items():
        print(f"  {share:.0%} of the operators of {name} occur in other networks too")


if __name__ == "__main__":
    main()
