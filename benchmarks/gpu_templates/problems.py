"""Problems of the study: from Bolt's figures and tables, and from BERT-base for one text."""

from __future__ import annotations

from collections.abc import Mapping

from foretune.compiler.templates.gpu.attention import Attention, BackToBack, Layout, packed
from foretune.compiler.templates.gpu.problem import Problem, Product, Window
from foretune.compiler.templates.gpu.rows import NormedProduct, Rows

_PAIRS = ((16384, 256, 64, 16), (32768, 576, 128, 64), (128320, 96, 32, 128))
"""Rows, depth, and widths of both products, as in Bolt's Table 1, except for DEPARTURES. Its first row has
products of width 1 and 4, which no tensor core computes."""

DEPARTURES: Mapping[str, str] = {
    "pair 128320x96x32x128": (
        "The second product of pair 128320x96x32x128 has 128 columns where Bolt's Table 1 has 96: a block "
        "holds whole rows of both products, whose widths must be powers of two. That is a third more work."
    ),
}
"""Problems that differ from the paper's, and the reasons; printed below the table."""

HEADS = packed(1, 128, 12, 64)
"""Layout in which a product of 128 tokens and 12 heads of 64 stores queries, keys and values."""

_MASK = Layout(128 * 128, 0, 0, 0, 128)
_HALF = {"dtype": "bf16", "bias": "fp32"}
_NORMED = {"residual": "bf16", "epsilon": 1e-12}

ONE_TEXT: Mapping[str, Problem] = {
    "one text 128x768x768": Product(m=128, n=768, k=768, **_HALF),
    "one text 128x3072x768, GELU": Product(m=128, n=3072, k=768, activation="gelu", **_HALF),
    "one text 128x768x3072": Product(m=128, n=768, k=3072, **_HALF),
    "one text 128x768x768, layer norm": NormedProduct(m=128, n=768, k=768, **_HALF, **_NORMED),
    "one text 128x768x3072, layer norm": NormedProduct(m=128, n=768, k=3072, **_HALF, **_NORMED),
    "one text layer norm": Rows(m=128, n=768, epsilon=1e-12, dtype="bf16"),
    "one text softmax": Rows(m=1536, n=128, norm="softmax", scale="", shift="", dtype="bf16"),
    "one text attention": Attention(
        batch=1,
        heads=12,
        queries=128,
        keys=128,
        width=64,
        scale=0.125,
        layouts=(HEADS, HEADS, HEADS, _MASK, HEADS),
        mask="fp32",
        dtype="bf16",
    ),
}
"""Operators in a layer of BERT-base for one text of 128 tokens, in bfloat16."""

PROBLEMS: Mapping[str, Problem] = {
    "square 1024": Product(m=1024, n=1024, k=1024),
    "square 4096": Product(m=4096, n=4096, k=4096),
    "BERT 1280x768x768": Product(m=1280, n=768, k=768, activation="gelu"),
    "BERT 1280x3072x768": Product(m=1280, n=3072, k=768, activation="gelu"),
    "BERT 1280x768x3072": Product(m=1280, n=768, k=3072, activation="gelu"),
    **{
        f"conv {side} {channels}-{channels} 3x3": Window(
            **{"batch": 32, "height": side, "width": side, "channels": channels, "filters": channels},
            **{"kernel_h": 3, "kernel_w": 3, "padding": 1, "activation": "relu"},
        )
        for side, channels in ((56, 64), (28, 128), (14, 256), (7, 512))
    },
    **{
        f"pair {m}x{k}x{middle}x{n}": BackToBack(m=m, k=k, middle=middle, n=n, activation="relu")
        for m, k, middle, n in _PAIRS
    },
    **ONE_TEXT,
}
"""GEMMs of Figures 1 and 8 (batch 32 of 40 tokens), 3x3 convolutions of ResNet-50, pairs of Table 1, and the
operators for one text."""
