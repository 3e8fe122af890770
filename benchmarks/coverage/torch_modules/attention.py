"""Attention, position encodings and transformer layers."""

from __future__ import annotations

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from .making import Table, booleans, integers, new, normal, uniform

Q, K, V = (normal(2, 4, 6, 8, seed=seed) for seed in range(3))
TOKENS = normal(2, 6, 16)


class SelfAttention(nn.Module):
    """Heads of one tensor, with a causal mask as a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.register_buffer("mask", torch.tril(torch.ones(8, 8)).view(1, 1, 8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = (y.view(b, t, 4, c // 4).transpose(1, 2) for y in self.qkv(x).split(c, dim=2))
        weights = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        weights = weights.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf")).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).contiguous().view(b, t, c))


class Attended(nn.Module):
    """`nn.MultiheadAttention` of one tensor with itself."""

    def __init__(self, **options: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True, **options)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.attention(x, x, x)


def rotated(x: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding by halves."""
    angles = torch.arange(6)[:, None] * 10000.0 ** (-torch.arange(4) / 4)
    angles = torch.cat([angles, angles], -1)
    first, second = x.chunk(2, -1)
    return x * angles.cos() + torch.cat([-second, first], -1) * angles.sin()


def rotated_as_complex(x: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding by complex numbers, as in LLaMA's first release."""
    angles = torch.outer(torch.arange(6), 10000.0 ** (-torch.arange(4) / 4))
    turns = torch.polar(torch.ones_like(angles), angles)
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(-2)


def alibi(x: torch.Tensor) -> torch.Tensor:
    """Scores with linear biases by distance."""
    distance = torch.arange(6)[None] - torch.arange(6)[:, None]
    slopes = 2.0 ** (-torch.arange(1, 5))
    return (x @ x.mT + slopes[:, None, None] * distance).softmax(-1)


def windowed(x: torch.Tensor) -> torch.Tensor:
    """Windows of 2 x 2 of a shifted image, as in Swin."""
    shifted = torch.roll(x, (-1, -1), (1, 2))
    windows = shifted.view(1, 3, 2, 2, 2, 8).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, 8)
    mixed = (windows @ windows.transpose(1, 2)).softmax(-1) @ windows
    whole = mixed.view(1, 3, 2, 2, 2, 8).permute(0, 1, 3, 2, 4, 5).reshape(1, 6, 4, 8)
    return torch.roll(whole, (1, 1), (1, 2))


_LAYER = {"d_model": 16, "nhead": 4, "dim_feedforward": 32, "batch_first": True}

TABLE: Table = {
    "sdpa": (F.scaled_dot_product_attention, Q, K, V),
    "sdpa_causal": (partial(F.scaled_dot_product_attention, is_causal=True), Q, K, V),
    "sdpa_scale": (partial(F.scaled_dot_product_attention, scale=0.3), Q, K, V),
    "sdpa_mask": (F.scaled_dot_product_attention, Q, K, V, booleans(6, 6) | torch.eye(6, dtype=torch.bool)),
    "sdpa_bias": (F.scaled_dot_product_attention, Q, K, V, normal(2, 4, 6, 6)),
    "sdpa_grouped": (partial(F.scaled_dot_product_attention, enable_gqa=True), Q, K[:, :2], V[:, :2]),
    "sdpa_cross": (F.scaled_dot_product_attention, Q, normal(2, 4, 9, 8), normal(2, 4, 9, 8, seed=4)),
    "sdpa_of_three_axes": (F.scaled_dot_product_attention, Q[0], K[0], V[0]),
    "MultiheadAttention": (new(Attended), TOKENS),
    "MultiheadAttention_bias_kv": (new(Attended, add_bias_kv=True, add_zero_attn=True), TOKENS),
    "SelfAttention": (new(SelfAttention), TOKENS),
    "TransformerEncoderLayer": (new(nn.TransformerEncoderLayer, **_LAYER), TOKENS),
    "TransformerEncoderLayer_norm_first": (
        new(nn.TransformerEncoderLayer, **_LAYER, norm_first=True, activation="gelu"),
        TOKENS,
    ),
    "TransformerEncoder": (
        new(lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(**_LAYER), 2)),  # type: ignore[arg-type]
        TOKENS,
    ),
    "TransformerDecoderLayer": (new(nn.TransformerDecoderLayer, **_LAYER), TOKENS, normal(2, 5, 16)),
    "Transformer": (
        new(nn.Transformer, 16, 4, 1, 1, 32, batch_first=True),
        TOKENS,
        normal(2, 5, 16),
    ),
    "rotary": (rotated, Q),
    "rotary_as_complex": (rotated_as_complex, Q),
    "alibi": (alibi, Q),
    "windows": (windowed, normal(1, 6, 4, 8)),
    "linear_attention": (
        lambda q, k, v: F.elu(q + 1) @ ((F.elu(k) + 1).mT @ v),
        Q,
        K,
        V,
    ),
    "relative_positions": (
        lambda x, t: x + t[torch.arange(6)[:, None] - torch.arange(6)[None] + 5].permute(2, 0, 1),
        normal(2, 4, 6, 6),
        normal(11, 4),
    ),
    "sinusoid": (
        lambda x: (
            x
            + torch.stack(
                [
                    f(torch.arange(6)[:, None] / 10000 ** (torch.arange(8) / 8))
                    for f in (torch.sin, torch.cos)
                ],
                -1,
            ).flatten(1)
        ),
        TOKENS,
    ),
    "repeated_heads": (
        lambda q, k: q @ k[:, :, None].expand(-1, -1, 2, -1, -1).reshape(2, 4, 6, 8).mT,
        Q,
        K[:, :2],
    ),
    "static_cache": (
        lambda c, p, k: c.index_copy(2, p, k),
        normal(2, 4, 10, 8),
        torch.tensor([3]),
        normal(2, 4, 1, 8),
    ),
    "dynamic_cache": (lambda c, k: torch.cat([c, k], 2), K, normal(2, 4, 1, 8)),
    "padding_mask": (
        lambda x, n: (
            (x @ x.mT).masked_fill((torch.arange(6)[None] >= n[:, None])[:, None], float("-inf")).softmax(-1)
        ),
        TOKENS,
        torch.tensor([4, 6]),
    ),
    "experts": (
        lambda x, g, w: torch.einsum("tk,tkd->td", *_of_experts(x, g, w)),
        normal(7, 5),
        normal(5, 4),
        normal(4, 5, 3),
    ),
    "pooled_by_mask": (
        lambda x, m: (x * m[..., None]).sum(1) / m.sum(1, keepdim=True).clamp(min=1e-9),
        TOKENS,
        booleans(2, 6).float(),
    ),
    "beam_scores": (lambda s, p: (s + p[:, None]).view(-1).topk(3), uniform(3, 9), uniform(3)),
    "sampled_by_temperature": (lambda x, i: (x / 0.7).softmax(-1).gather(1, i), normal(2, 9), integers(2, 1)),
}


def _of_experts(
    x: torch.Tensor, gate: torch.Tensor, weights: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights (token, 2) and outputs (token, 2, width) of each token's two best experts."""
    score, chosen = (x @ gate).softmax(-1).topk(2, -1)
    return score, torch.einsum("td,tkde->tke", x, weights[chosen])
