"""1x1 convolutions after those of a network (Bolt section 3.3, second principle; section 4.3)."""

from __future__ import annotations

from ....compiler.operators.convolutions.base import ImageConvolution
from ....compiler.operators.convolutions.conv2d import Conv2d
from .layers import Layer, Variant


def deepened(layer: Layer) -> Variant | None:
    """The 1x1 convolution that may follow a 2-D convolution; None for any other layer.

    Its numbers of input and output channels are the layer's number of output channels. It has a stride of 1,
    no padding (section 4.3), a bias and the layer's activation.
    """
    settings = layer.variant.settings
    if not isinstance(settings, ImageConvolution):
        return None
    height, width = settings.output_size
    pointwise = Conv2d(
        batch=settings.batch,
        in_channels=settings.filters,
        out_channels=settings.filters,
        height=height,
        width=width,
        kernel=(1, 1),
        layout=settings.layout,
        dtype=settings.dtype,
        prepack=settings.prepack,
        epilogue="bias",
    )
    return Variant(pointwise, layer.variant.activation)


def parameters(variant: Variant) -> int:
    """Weights and biases that the convolution of `deepened` adds to the network."""
    assert isinstance(variant.settings, Conv2d)
    channels = variant.settings.out_channels
    return channels * channels + channels
