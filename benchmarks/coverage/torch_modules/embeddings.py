"""Embeddings."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .making import Table, integers, new, normal, uniform

TOKENS = integers(2, 6, high=10)
BAGS = torch.tensor([0, 2, 5])


class Ragged(nn.Module):
    """An embedding bag whose bags have several lengths."""

    def __init__(self, mode: str, **options: bool) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(10, 4, mode=mode, **options)

    def forward(self, tokens: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return self.bag(tokens, offsets)


TABLE: Table = {
    "Embedding": (new(nn.Embedding, 10, 4), TOKENS),
    "Embedding_padding": (new(nn.Embedding, 10, 4, padding_idx=0), TOKENS),
    "Embedding_max_norm": (new(nn.Embedding, 10, 4, max_norm=1.0), TOKENS),
    "Embedding_int32": (new(nn.Embedding, 10, 4), TOKENS.int()),
    "Embedding_scalar": (new(nn.Embedding, 10, 4), torch.tensor(3)),
    "embedding_of_input": (F.embedding, TOKENS, normal(10, 4)),
    "EmbeddingBag_sum": (new(nn.EmbeddingBag, 10, 4, mode="sum"), TOKENS),
    "EmbeddingBag_mean": (new(nn.EmbeddingBag, 10, 4), TOKENS),
    "EmbeddingBag_max": (new(nn.EmbeddingBag, 10, 4, mode="max"), TOKENS),
    "EmbeddingBag_ragged": (new(Ragged, "mean"), TOKENS.flatten(), BAGS),
    "EmbeddingBag_ragged_max": (new(Ragged, "max"), TOKENS.flatten(), BAGS),
    "EmbeddingBag_last_offset": (
        new(Ragged, "sum", include_last_offset=True),
        TOKENS.flatten(),
        torch.tensor([0, 2, 5, 12]),
    ),
    "EmbeddingBag_weights": (
        lambda t, w, p: F.embedding_bag(t, w, per_sample_weights=p, mode="sum"),
        TOKENS,
        normal(10, 4),
        uniform(2, 6),
    ),
    "tied_embedding": (lambda t, w: F.embedding(t, w) @ w.T, TOKENS, normal(10, 4)),
    "token_and_position": (
        lambda t, w, p: F.layer_norm(F.embedding(t, w) + p[torch.arange(t.shape[1])], (4,)),
        TOKENS,
        normal(10, 4),
        normal(8, 4),
    ),
    "one_hot_product": (lambda t, w: F.one_hot(t, 10).float() @ w, TOKENS, normal(10, 4)),
}
