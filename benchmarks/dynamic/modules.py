"""Networks of the benchmark that the package does not know by name, with random weights."""

from __future__ import annotations

from typing import Any

import torch
from foretune.compiler.networks.known import draw_statistics, require_extra
from torch import nn
from torch.nn import functional

CLASSES = 97
"""Characters of a text line, with the blank of CTC."""


class MaskedEncoder(nn.Module):
    """BERT encoder that takes tokens and their mask: int64 [b, n] each, to float32 [b, n, hidden]."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.encoder(input_ids=tokens, attention_mask=mask).last_hidden_state


def encoder(hidden: int, layers: int, heads: int) -> nn.Module:
    """BERT encoder with plain attention, which exports as products and softmax."""
    library = require_extra("transformers", "networks", "the benchmark's encoders")
    settings: dict[str, Any] = {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * hidden,
    }
    config = library.BertConfig(attn_implementation="eager", **settings)
    return MaskedEncoder(library.BertModel(config, add_pooling_layer=False))


class ConvUnit(nn.Sequential):
    """Convolution of 3 x 3, batch norm and ReLU."""

    def __init__(self, before: int, after: int, stride: int | tuple[int, int] = 1) -> None:
        super().__init__(
            nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True)
        )


class TextLine(nn.Module):
    """Recogniser of text lines: float32 [b, 1, 32, w] to scores [b, w / 8, CLASSES], for CTC.

    Convolutions reduce the height to 1. With `recurrent`, an LSTM in both directions reads the columns, as in
    CRNN (Shi et al. 2017); otherwise two convolutions over the columns do.
    """

    def __init__(self, recurrent: bool = False) -> None:
        super().__init__()
        channels, strides = (64, 128, 256, 256, 512), ((2, 2), (2, 2), (2, 2), (2, 1), (2, 1))
        units, before = [ConvUnit(1, 32)], 32
        for after, stride in zip(channels, strides, strict=True):
            units += [ConvUnit(before, after, stride), ConvUnit(after, after)]
            before = after
        self.image = nn.Sequential(*units)
        self.recurrent = nn.LSTM(before, 256, bidirectional=True, batch_first=True) if recurrent else None
        self.columns = nn.Sequential(nn.Conv1d(before, 512, 5, padding=2), nn.ReLU())
        self.scores = nn.Linear(512, CLASSES)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        columns = self.image(image).squeeze(2)
        if self.recurrent is None:
            return self.scores(self.columns(columns).transpose(1, 2))
        return self.scores(self.recurrent(columns.transpose(1, 2))[0])


def text_line(recurrent: bool = False) -> nn.Module:
    return draw_statistics(TextLine(recurrent))


class Segmentation(nn.Module):
    """Fully convolutional network for segmentation: float32 [b, 3, h, w] to scores [b, 21, h, w].

    Convolutions reduce the image by 8, and a bilinear resize gives the scores its size (Long et al. 2015).
    """

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            ConvUnit(3, 32, 2),
            *(ConvUnit(32, 64), ConvUnit(64, 64, 2)),
            *(ConvUnit(64, 128), ConvUnit(128, 128, 2)),
            *(ConvUnit(128, 256), ConvUnit(256, 256), ConvUnit(256, 256)),
        )
        self.scores = nn.Conv2d(256, 21, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        scores = self.scores(self.features(image))
        return functional.interpolate(scores, size=image.shape[-2:], mode="bilinear", align_corners=False)


def segmentation() -> nn.Module:
    return draw_statistics(Segmentation())


def tiny() -> nn.Module:
    """Two products: float32 [b, 16] to [b, 8]."""
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
