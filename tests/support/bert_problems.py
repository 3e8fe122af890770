"""What a layer of BERT-base computes for one text of 128 tokens, as problems of GPU templates."""

from __future__ import annotations

from foretune.dataset.templates.gpu.attention import Attention, Layout, packed
from foretune.dataset.templates.gpu.problem import Problem, Product
from foretune.dataset.templates.gpu.rows import NormedProduct, Rows

HALF = {"dtype": "bf16", "bias": "fp32"}
HEADS = packed(1, 128, 12, 64)
MASK = Layout(128 * 128, 0, 0, 0, 128)
BERT: dict[str, Problem] = {
    "query": Product(m=128, n=768, k=768, **HALF),
    "first": Product(m=128, n=3072, k=768, activation="gelu", **HALF),
    "second": Product(m=128, n=768, k=3072, **HALF),
    "output with layer norm": NormedProduct(m=128, n=768, k=768, residual="bf16", epsilon=1e-12, **HALF),
    "second with layer norm": NormedProduct(m=128, n=768, k=3072, residual="bf16", epsilon=1e-12, **HALF),
    "layer norm": Rows(m=128, n=768, epsilon=1e-12, dtype="bf16"),
    "softmax": Rows(m=1536, n=128, norm="softmax", scale="", shift="", dtype="bf16"),
    "attention": Attention(
        batch=1,
        heads=12,
        queries=128,
        keys=128,
        width=64,
        scale=0.125,
        layouts=(HEADS, HEADS, HEADS, MASK, HEADS),
        mask="fp32",
        dtype="bf16",
    ),
}
