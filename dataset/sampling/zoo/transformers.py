"""Networks of transformers for the crawl: every architecture with its defaults, and other sizes of some.

Attention runs as plain matrix products and a softmax, which become separate tasks on import.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from .operator_log import NetworkFactory

TOKENS, DECODER_TOKENS = 128, 64
"""Longest text given to an architecture of default size."""

AUDIO_SAMPLES = 16_000
"""A second of speech at the sampling rate that its networks expect."""

WAVEFORM_NETWORKS = {"dac", "encodec", "mimi", "xcodec"}
"""Architectures whose audio input has a channel axis."""

PURPOSES = (
    "MODEL_MAPPING_NAMES",
    "MODEL_FOR_DEPTH_ESTIMATION_MAPPING_NAMES",
    "MODEL_FOR_SEMANTIC_SEGMENTATION_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_TO_IMAGE_MAPPING_NAMES",
    "MODEL_FOR_OBJECT_DETECTION_MAPPING_NAMES",
    "MODEL_FOR_TEXT_TO_WAVEFORM_MAPPING_NAMES",
)
"""Names of transformers' tables of classes: base models, and models with more than a classifier as head."""


def default_networks() -> Iterator[tuple[str, NetworkFactory]]:
    """Every architecture of PURPOSES in the sizes of its default configuration."""
    from transformers.models.auto import modeling_auto

    for purpose in PURPOSES:
        for architecture, classes in sorted(getattr(modeling_auto, purpose).items()):
            for name in (classes,) if isinstance(classes, str) else classes:
                yield f"transformers.{name}", partial(_default_network, architecture, name)


def sized_networks() -> Iterator[tuple[str, NetworkFactory]]:
    """The networks of TEXT_NETWORKS and VISION_NETWORKS."""
    for name, architecture, tokens, options in TEXT_NETWORKS:
        yield f"{name}_len{tokens}", partial(transformer, architecture, options, (1, tokens), torch.long)
    for name, architecture, side, options in VISION_NETWORKS:
        yield name, partial(transformer, architecture, options, (1, 3, side, side), torch.float32)
    for name, class_name, shape in VOCODERS:
        yield name, partial(_vocoder, class_name, shape)


def transformer(
    architecture: str, options: Mapping[str, Any], shape: tuple[int, ...], dtype: torch.dtype
) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """A base model from its configuration, and an input of one tensor."""
    import transformers

    config = getattr(transformers, f"{architecture}Config")(attn_implementation="eager", **options)
    return getattr(transformers, f"{architecture}Model")(config), (torch.empty(shape, dtype=dtype),)


def _vocoder(class_name: str, shape: tuple[int, ...]) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    import transformers

    config = getattr(transformers, f"{class_name.removesuffix('Model')}Config")()
    return getattr(transformers, class_name)(config), (torch.empty(shape),)


class _Called(nn.Module):
    """A network together with its named arguments."""

    def __init__(self, network: nn.Module, arguments: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self.network = network
        self.arguments = arguments

    def forward(self) -> Any:
        return self.network(**self.arguments)


def _default_network(architecture: str, class_name: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    import transformers

    config = transformers.CONFIG_MAPPING[architecture]()
    config._attn_implementation = "eager"
    network = getattr(transformers, class_name)(config)
    accepted = inspect.signature(network.forward).parameters
    # A text with tokens that stand for pictures does not fit the number of pictures given here.
    names = [network.main_input_name] if any("image_token" in key for key in vars(config)) else list(accepted)
    inputs = _inputs(architecture, config)
    return _Called(network, {name: inputs[name] for name in names if name in inputs}), ()


def _inputs(architecture: str, config: Any) -> dict[str, torch.Tensor]:
    """Inputs of batch 1 by the names that transformers gives them."""
    text, vision = (getattr(config, f"{part}_config", None) or config for part in ("text", "vision"))
    tokens = min(TOKENS, getattr(text, "max_position_embeddings", None) or TOKENS)
    side = getattr(vision, "image_size", None) or 224
    height, width = (side, side) if isinstance(side, int) else side
    frames = [config.num_frames] if getattr(config, "num_frames", None) else []
    image = torch.empty((1, *frames, getattr(vision, "num_channels", 3), height, width))
    channel = [1] if architecture in WAVEFORM_NETWORKS else []
    bands = getattr(config, "num_mel_bins", 80)
    inputs = {
        "input_ids": torch.empty((1, tokens), dtype=torch.long),
        "pixel_values": image,
        "pixel_values_videos": image,
        "input_values": torch.empty((1, *channel, AUDIO_SAMPLES)),
        "input_features": torch.empty((1, bands, 2 * getattr(config, "max_source_positions", 1500))),
    }
    if getattr(config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = torch.empty((1, DECODER_TOKENS), dtype=torch.long)
    return inputs


def _encoder(width: int, layers: int) -> dict[str, int]:
    """Sizes of an encoder with 64-wide heads and a feed-forward part four times as wide."""
    return {
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": width // 64,
        "intermediate_size": 4 * width,
    }


BERT_LARGE = _encoder(1024, 24)

TENSET_BERT_TINY = _encoder(512, 6)
"""TenSet's BERT-tiny, which is larger than the network that others call so."""

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
"""Name, architecture, tokens of the input, and the configuration if it differs from the default."""

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
"""Name, architecture, side of the square image, and the configuration if it differs from the default."""

VOCODERS: Sequence[tuple[str, str, tuple[int, ...]]] = [
    ("hifigan_speecht5", "SpeechT5HifiGan", (1, 100, 80)),
    ("hifigan_speecht5_long", "SpeechT5HifiGan", (1, 320, 80)),
    ("hifigan_fastspeech2", "FastSpeech2ConformerHifiGan", (1, 100, 80)),
    ("hifigan_fastspeech2_long", "FastSpeech2ConformerHifiGan", (1, 320, 80)),
    ("univnet", "UnivNetModel", (1, 100, 100)),
    ("univnet_long", "UnivNetModel", (1, 320, 100)),
]
"""Name, class and shape of the spectrogram: batch, frames and bands."""
