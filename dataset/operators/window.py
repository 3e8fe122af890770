"""Windows that slide over the spatial axes of a tensor, and the layouts of such tensors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tvm import te

from .settings import OperatorSettings, SettingsError


@dataclass(frozen=True, kw_only=True)
class SlidingWindow(OperatorSettings):
    """What convolutions and pooling share: a window over the spatial axes of a batch of channels.

    A subclass has a field for each of `axes` and of `window_fields`: a number where there is one axis, else a
    tuple with a number an axis.
    """

    axes: ClassVar[tuple[str, ...]]
    window_fields: ClassVar[tuple[str, ...]] = ("kernel", "stride", "padding", "dilation")
    layouts: ClassVar[tuple[str, ...]]
    """Orders of the data's axes that the operator has, the default first. N is the batch, C the channels."""

    batch: int
    layout: str

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_at_least(1, "batch", *self.axes)
        for name in self.window_fields:
            self._set_extents(0 if name.endswith("padding") else 1, len(self.axes), name)
        self._check_choice("layout", self.layouts)
        self._check_window()

    def window(self, name: str) -> tuple[int, ...]:
        """A setting of the window, one number an axis; 1 for a dilation that the operator lacks."""
        value = getattr(self, name, 1)
        return value if isinstance(value, tuple) else (value,) * len(self.axes)

    @property
    def input_size(self) -> tuple[int, ...]:
        """Spatial extents of the data, in the order of `axes`."""
        return tuple(getattr(self, name) for name in self.axes)

    @property
    def output_size(self) -> tuple[int, ...]:
        """Spatial extents of the output, in the order of `axes`."""
        return tuple(
            (padded - span) // stride + 1
            for padded, span, stride in zip(self._padded(), self._spans(), self.window("stride"), strict=True)
        )

    @property
    @abstractmethod
    def data_channels(self) -> int:
        """Channels of the data."""

    @property
    def label(self) -> str:
        shape = "x".join(map(str, (self.batch, self.data_channels, *self.input_size)))
        parts = [f"{name[0]}{_join(self.window(name))}" for name in self.window_fields]
        layout = [self.layout.lower()] if self.layout != self.layouts[0] else []
        return "_".join([shape, *parts, *layout])

    def _data(self) -> te.Tensor:
        shape = shape_of(self.layout, self.input_size, N=self.batch, C=self.data_channels)
        return te.placeholder(shape, dtype=self.dtype, name="data")

    def _bias_shape(self, channels: int) -> tuple[int, ...]:
        """One number a channel of the output, 1 along its other axes."""
        return shape_of(self.layout, [1] * len(self.axes), N=1, C=channels)

    def _padded(self) -> list[int]:
        return [size + 2 * pad for size, pad in zip(self.input_size, self.window("padding"), strict=True)]

    def _spans(self) -> list[int]:
        """Extents of the dilated window."""
        return [
            dilation * (kernel - 1) + 1
            for kernel, dilation in zip(self.window("kernel"), self.window("dilation"), strict=True)
        ]

    def _check_window(self) -> None:
        for axis, span, padded in zip(self.axes, self._spans(), self._padded(), strict=True):
            if span > padded:
                window = f"kernel={self.window('kernel')} with dilation={self.window('dilation')}"
                raise SettingsError(
                    f"{self.operator}: {window} spans {span} along {axis}, the padded input has {padded}: "
                    "use a smaller kernel or a larger input"
                )


def _join(extents: Sequence[int]) -> str:
    return "x".join(map(str, extents if len(set(extents)) > 1 else extents[:1]))


def kernel_layout(layout: str) -> str:
    """Layout of the weight that goes with a data layout: OIHW with NCHW, HWIO with NHWC, others likewise."""
    spatial = layout.strip("NC")
    return f"OI{spatial}" if layout.startswith("NC") else f"{spatial}IO"


def shape_of(layout: str, spatial: Sequence[int], **extents: int) -> tuple[int, ...]:
    """Shape of a tensor; extents of axes that are not spatial by letter, as N=1 and C=3 for NHWC."""
    letters = [letter for letter in layout if letter not in extents]
    by_letter = extents | dict(zip(letters, spatial, strict=True))
    return tuple(by_letter[letter] for letter in layout)
