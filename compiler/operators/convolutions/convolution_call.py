"""Arguments of `aten.convolution`, which PyTorch calls for every convolution, transposed ones too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..shared.torch_call import TorchCall

CONVOLUTION = "aten.convolution"


class ConvolutionCall:
    """Arguments by name; those of the window have one number per axis."""

    def __init__(self, call: TorchCall) -> None:
        data, weight, bias, stride, padding, dilation, self.transposed, output_padding, self.groups = (
            call.args
        )
        self.batch, self.in_channels, *self.size = data.shape
        self.out_channels = weight.shape[1 if self.transposed else 0]
        self.kernel = self._window(weight.shape[2:])
        self.stride, self.padding = self._window(stride), self._window(padding)
        self.dilation, self.output_padding = self._window(dilation), self._window(output_padding)
        self.biased = bias is not None

    def _window(self, extents: Iterable[int]) -> tuple[int, ...]:
        values = tuple(extents)
        return values * len(self.size) if len(values) == 1 else values

    def fields(self, axes: tuple[str, ...]) -> dict[str, Any]:
        """Values by names of settings, for an operator over these axes."""
        names = ("kernel", "stride", "padding", "dilation", "output_padding")
        windows = {name: getattr(self, name) for name in names}
        return {
            "batch": self.batch,
            "in_channels": self.in_channels,
            "out_channels": self.out_channels,
            "groups": self.groups,
            **dict(zip(axes, self.size, strict=True)),
            **{name: value[0] if len(axes) == 1 else value for name, value in windows.items()},
            "epilogue": "bias" if self.biased else "none",
        }
