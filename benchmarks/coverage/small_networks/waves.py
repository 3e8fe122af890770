"""Networks of audio, time series and other sequences, and own ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from ..zoos import GENERATIVE, OWN, SEQUENCE, Entry, Recurrent, from_transformers, tokens

_LAYERS = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
_CONVOLUTIONS = {
    "conv_dim": [16, 16, 16],
    "conv_kernel": [10, 3, 3],
    "conv_stride": [5, 2, 2],
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}
_SAMPLES = {"input_values": {"shape": [1, 1600]}}


def _wave(name: str, **settings: Any) -> Entry:
    return from_transformers(SEQUENCE, name, _SAMPLES, **_LAYERS, **_CONVOLUTIONS, **settings)


def _own(build: Any, *inputs: Any) -> Entry:
    return Entry(OWN, SEQUENCE, build, inputs)


class Tacotron(nn.Module):
    """Encoder of characters: embedding, convolutions and a bidirectional LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(32, 16)
        self.convolution = nn.Sequential(nn.Conv1d(16, 16, 5, padding=2), nn.BatchNorm1d(16), nn.ReLU())
        self.lstm = nn.LSTM(16, 8, batch_first=True, bidirectional=True)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        return self.lstm(self.convolution(self.embedding(text).mT).mT)[0]


class Spectral(nn.Module):
    """Keyword spotting: log spectrogram, convolutions, GRU, classes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(64))
        self.convolution = nn.Conv2d(1, 8, 3, stride=2, padding=1)
        self.gru = nn.GRU(8 * 17, 16, batch_first=True)
        self.head = nn.Linear(16, 4)

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        power = torch.stft(wave, 64, 32, window=self.window, return_complex=True).abs().square()
        maps = F.relu(self.convolution((power + 1e-6).log()[:, None]))
        return self.head(self.gru(maps.permute(0, 3, 1, 2).flatten(2))[0][:, -1])


class Graph(nn.Module):
    """Two layers of message passing over given edges."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        source, target = edges[0], edges[1]
        degree = torch.ones(12).index_add(0, target, torch.ones(24))
        hidden = self.first(nodes)
        hidden = F.relu(hidden.index_add(0, target, hidden[source]) / degree[:, None])
        return self.second(hidden.index_add(0, target, hidden[source]) / degree[:, None])


class Recommender(nn.Module):
    """Sparse and dense features, pairwise products, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(20, 8, mode="sum") for _ in range(3))
        self.dense, self.head = nn.Linear(4, 8), nn.Linear(14, 1)

    def forward(self, dense: torch.Tensor, sparse: torch.Tensor) -> torch.Tensor:
        first = F.relu(self.dense(dense))
        vectors = torch.stack([first, *(bag(sparse[:, k]) for k, bag in enumerate(self.bags))], 1)
        products = vectors @ vectors.mT
        rows, columns = torch.tril_indices(4, 4, -1)
        return torch.sigmoid(self.head(torch.cat([first, products[:, rows, columns]], 1)))


class Radiance(nn.Module):
    """Colours along rays by frequencies of positions and accumulated transmittance."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        scaled = points[..., None] * 2.0 ** torch.arange(4)
        found = self.layers(torch.cat([scaled.sin(), scaled.cos()], -1).flatten(-2))
        alpha = 1 - torch.exp(-F.softplus(found[..., 3]) * 0.1)
        kept = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], 1), 1)[:, :-1]
        return ((alpha * kept)[..., None] * torch.sigmoid(found[..., :3])).sum(1)


class Denoiser(nn.Module):
    """A small U-Net with an embedding of the time step."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(16, 16), nn.SiLU(), nn.Linear(16, 16))
        self.down = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.norm, self.middle = nn.GroupNorm(4, 16), nn.Conv2d(16, 16, 3, padding=1)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.up = nn.ConvTranspose2d(16, 3, 4, stride=2, padding=1)

    def forward(self, x: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        angles = step[:, None] * 10000 ** (-torch.arange(8) / 8)
        time = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        hidden = self.down(x) + time[:, :, None, None]
        hidden = hidden + self.middle(F.silu(self.norm(hidden)))
        flat = hidden.flatten(2).mT
        mixed = self.attention(flat, flat, flat, need_weights=False)[0].mT.reshape(hidden.shape)
        return self.up(hidden + mixed)


class Points(nn.Module):
    """Classes of a cloud of points: nearest neighbours, edges, maxima."""

    def __init__(self) -> None:
        super().__init__()
        self.edge, self.head = nn.Linear(6, 16), nn.Linear(16, 5)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        near = torch.cdist(points, points).topk(4, largest=False)[1]
        batch = torch.arange(points.shape[0])[:, None, None]
        gathered = points[batch, near]
        center = points[:, :, None].expand_as(gathered)
        return self.head(F.relu(self.edge(torch.cat([center, gathered - center], -1))).amax((1, 2)))


WAVES: Mapping[str, Entry] = {
    "hf_data2vec_audio": _wave("Data2VecAudio"),
    "hf_sew": _wave("SEW", squeeze_factor=2),
    "hf_unispeech": _wave("UniSpeech"),
    "hf_wav2vec2_conformer": _wave("Wav2Vec2Conformer", conv_depthwise_kernel_size=7),
    "hf_wavlm": _wave("WavLM"),
    "hf_speech_to_text": from_transformers(
        SEQUENCE,
        "Speech2Text",
        {"input_features": {"shape": [1, 32, 16]}, "decoder_input_ids": tokens(64, 8)},
        vocab_size=64,
        input_feat_per_channel=16,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        conv_channels=32,
    ),
    "hf_moonshine": from_transformers(
        SEQUENCE,
        "Moonshine",
        {"input_values": {"shape": [1, 3200]}, "decoder_input_ids": tokens(64, 8)},
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        encoder_num_hidden_layers=1,
        decoder_num_hidden_layers=1,
        encoder_num_attention_heads=4,
        decoder_num_attention_heads=4,
    ),
    "hf_dac": from_transformers(
        SEQUENCE,
        "Dac",
        {"input_values": {"shape": [1, 1, 1024]}},
        encoder_hidden_size=8,
        decoder_hidden_size=32,
        n_codebooks=2,
        codebook_size=16,
        downsampling_ratios=[2, 4],
        upsampling_ratios=[4, 2],
    ),
    "hf_univnet": from_transformers(
        GENERATIVE,
        "UnivNet",
        {"input_features": {"shape": [1, 8, 100]}, "noise_sequence": {"shape": [1, 8, 64]}},
    ),
    "hf_patchtsmixer": from_transformers(
        SEQUENCE,
        "PatchTSMixer",
        {"past_values": {"shape": [1, 64, 3]}},
        context_length=64,
        num_input_channels=3,
        patch_length=8,
        patch_stride=8,
        d_model=16,
        num_layers=2,
    ),
    "hf_decision_transformer": from_transformers(
        SEQUENCE,
        "DecisionTransformer",
        {
            "states": {"shape": [1, 8, 5]},
            "actions": {"shape": [1, 8, 3]},
            "rewards": {"shape": [1, 8, 1]},
            "returns_to_go": {"shape": [1, 8, 1]},
            "timesteps": {"shape": [1, 8], "dtype": "int64", "high": 8},
        },
        state_dim=5,
        act_dim=3,
        hidden_size=32,
        n_layer=1,
        n_head=2,
        max_ep_len=16,
    ),
    "lstm_without_bias": _own(lambda: Recurrent("LSTM", bias=False), {"shape": [1, 12, 64]}),
    "rnn": _own(lambda: Recurrent("RNN"), {"shape": [1, 12, 64]}),
    "tacotron_encoder": _own(Tacotron, tokens(32, 10)),
    "keyword_spotting": _own(Spectral, {"shape": [1, 1024]}),
    "graph_convolution": _own(Graph, {"shape": [12, 8]}, {"shape": [2, 24], "dtype": "int64", "high": 12}),
    "recommender": _own(Recommender, {"shape": [2, 4]}, {"shape": [2, 3, 5], "dtype": "int64", "high": 20}),
    "radiance_field": _own(Radiance, {"shape": [4, 8, 3]}),
    "denoiser": _own(Denoiser, {"shape": [1, 3, 16, 16]}, {"shape": [1]}),
    "point_cloud": _own(Points, {"shape": [1, 16, 3]}),
}
