"""Conversion of PyTorch's resizing where extents are symbols."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx
from torch._decomp import decomposition_table
from tvm import relax

_ATEN = torch.ops.aten

OF_IMAGES: Mapping[Any, Mapping[str, Any]] = {
    _ATEN.upsample_nearest2d.vec: {
        "method": "nearest_neighbor",
        "coordinate_transformation_mode": "asymmetric",
        "rounding_method": "floor",
    },
    _ATEN.upsample_bilinear2d.vec: {"method": "linear"},
    _ATEN.upsample_bicubic2d.vec: {"method": "cubic", "cubic_alpha": -0.75},
}
"""Operators on images, and what their counterpart in Relax is told; see `lowering.symbolic_resizes`."""

_OTHERS = (_ATEN.upsample_nearest1d.vec, _ATEN.upsample_nearest3d.vec, _ATEN.upsample_linear1d.vec)


def resized(node: fx.Node, x: relax.Expr, size: relax.ShapeExpr) -> relax.Expr:
    """An image [batch, channels, height, width] with the height and width of `size`."""
    words = dict(OF_IMAGES[node.target])
    if "coordinate_transformation_mode" not in words:
        aligned = node.args[2] if len(node.args) > 2 else node.kwargs["align_corners"]
        words["coordinate_transformation_mode"] = "align_corners" if aligned else "half_pixel"
    return relax.op.image.resize2d(x, size, layout="NCHW", **words)


def _by_factors(resize: Any) -> Callable[..., Any]:
    """PyTorch's decomposition of a resizing by factors that may differ from the ratios of the extents."""

    def decompose(x: torch.Tensor, *arguments: Any) -> torch.Tensor:
        whole = all(float(factor).is_integer() for factor in arguments[-1] or ())
        return NotImplemented if whole else decomposition_table[resize](x, *arguments)

    return decompose


RESIZING: Mapping[Any, Callable[..., Any]] = {
    **{resize: decomposition_table[resize] for resize in _OTHERS if resize in decomposition_table},
    **{resize: _by_factors(resize) for resize in OF_IMAGES},
}
"""Decompositions: into indexing, for TVM resizes no other tensors than images."""
