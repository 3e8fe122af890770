"""All rewrites by operator."""

from __future__ import annotations

from collections.abc import Mapping

from .convolutions import CONVOLUTIONS
from .elementwise import ELEMENTWISE
from .normalisation import NORMALISATION
from .pools import POOLS
from .products import PRODUCTS
from .reductions import REDUCTIONS
from .resizing import RESIZING
from .rewriting import Rewrite
from .shapes import SHAPES

REWRITES: Mapping[str, Rewrite] = {
    **CONVOLUTIONS,
    **ELEMENTWISE,
    **NORMALISATION,
    **POOLS,
    **PRODUCTS,
    **REDUCTIONS,
    **RESIZING,
    **SHAPES,
}
"""Rewrites of operators that TVM's importer lacks or gets wrong, or that TVM then cannot lower."""
