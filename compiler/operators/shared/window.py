"""Windows that slide over the spatial axes of a tensor, and the layouts of such tensors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tvm import te
from typing_extensions import Self

from ..settings import OperatorSettings
from .checks import SettingsError
from .tir import TirFunction, extents, linear, per_axis
from .uniform import up_to

if TYPE_CHECKING:
    import numpy as np

LARGEST_SIDE = {1: 4096, 2: 224, 3: 32}
"""Largest extent of a window's input in uniform draws, by its number of axes."""

LARGEST_KERNEL, LARGEST_STRIDE, LARGEST_DILATION = 7, 2, 2

UNIT_FIELDS = ("stride", "dilation")
"""Fields of a window that leave the loops of an operator unchanged, with the default 1."""


@dataclass(frozen=True, kw_only=True)
class SlidingWindow(OperatorSettings):
    """Window over the spatial axes of a batch of channels: the base of convolutions and pooling.

    A subclass has a field for each of `axes` and of `window_fields`: a number if there is one axis, else a
    tuple with one number per axis. In its `layouts`, N is the batch and C the channels.
    """

    axes: ClassVar[tuple[str, ...]]
    window_fields: ClassVar[tuple[str, ...]] = ("kernel", "stride", "padding", "dilation")

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
        """A setting of the window, one number per axis; 1 for a dilation that the operator lacks."""
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

    @classmethod
    def read_window(
        cls, layout: str, data: Any, taps: Sequence[Any], function: TirFunction
    ) -> dict[str, Any] | None:
        """Batch, extents, kernel, stride, padding, dilation, layout and dtype.

        None where these settings have another output, as of a padding that differs between the sides.

        Args:
            layout: order of the data's axes.
            data: region that the anchor reads.
            taps: loops of the anchor over the window, in the order of `axes`.
        """
        anchor = function.anchor
        positions = spatial_positions(layout)
        padding, source = [0] * len(positions), data.source
        for name, block in function.blocks.items():
            if name.startswith("pad_temp") and block.writes[0].source.same_as(data.source):
                read = block.reads[0]
                padding = [-linear(read.region[i].min, block.iter_vars[i])[1] for i in positions]
                source = read.source
        stride = [linear(data.region[i].min, anchor.iter_vars[i])[0] for i in positions]
        dilation = [linear(data.region[i].min, tap)[0] for i, tap in zip(positions, taps, strict=True)]
        kernel = [int(tap.dom.extent) for tap in taps]
        shape, outputs = extents(source), extents(anchor.writes[0].source)
        for axis, index in enumerate(positions):
            room = shape[index] + 2 * padding[axis] - dilation[axis] * (kernel[axis] - 1) - 1
            if outputs[index] == 1:  # whose stride no index tells
                stride[axis] = max(0, room) + 1
            if outputs[index] != room // stride[axis] + 1:
                return None
        return {
            "batch": shape[0],
            **{name: shape[index] for name, index in zip(cls.axes, positions, strict=True)},
            "kernel": per_axis(kernel),
            "stride": per_axis(stride),
            "padding": per_axis(padding),
            "dilation": per_axis(dilation),
            "layout": layout,
            "dtype": str(source.dtype),
        }

    @classmethod
    def most_padding(cls, kernel: int) -> int:
        """Largest padding in uniform draws."""
        return kernel - 1

    @classmethod
    def draw_uniform(cls, rng: np.random.Generator, **drawn: Any) -> dict[str, Any]:
        """A window and an input with equal sides that holds it, then the other fields."""
        kernel, dilation = up_to(LARGEST_KERNEL, rng), 1
        stride = up_to(LARGEST_STRIDE, rng)
        if "dilation" in cls.window_fields:
            dilation = up_to(LARGEST_DILATION, rng)
        side = max(up_to(LARGEST_SIDE[len(cls.axes)], rng), dilation * (kernel - 1) + 1)
        padding = int(rng.integers(0, cls.most_padding(kernel), endpoint=True))
        window = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
        return super().draw_uniform(rng, **window, **dict.fromkeys(cls.axes, side), **drawn)

    def _bridge_values(self, other: Self) -> dict[str, Any]:
        """Stride and dilation are 1: the loops do not tell them (ETO Definition 5).

        Padding is the smaller one: with another kind of padding, the bridge would have other sketches.
        """
        values = super()._bridge_values(other)
        values |= {name: self._per_axis([1] * len(self.axes)) for name in UNIT_FIELDS if name in values}
        inputs = [
            output + kernel - 1 - 2 * padding
            for output, kernel, padding in zip(
                map(min, self.output_size, other.output_size),
                map(min, self.window("kernel"), other.window("kernel")),
                map(min, self.window("padding"), other.window("padding")),
                strict=True,
            )
        ]
        return values | dict(zip(self.axes, inputs, strict=True))

    def _per_axis(self, values: Sequence[int]) -> Any:
        """Values as fields of the window hold them: a number if there is one axis, else a tuple."""
        return values[0] if len(self.axes) == 1 else tuple(values)

    def _data(self) -> te.Tensor:
        shape = tensor_shape(self.layout, self.input_size, N=self.batch, C=self.data_channels)
        return te.placeholder(shape, dtype=self.dtype, name="data")

    def _bias_shape(self, channels: int) -> tuple[int, ...]:
        """One number per channel of the output, 1 along its other axes."""
        return tensor_shape(self.layout, [1] * len(self.axes), N=1, C=channels)

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


def spatial_positions(layout: str) -> list[int]:
    """Positions of the spatial axes in a layout."""
    return [index for index, letter in enumerate(layout) if letter not in "NC"]


def kernel_layout(layout: str) -> str:
    """Layout of the weight that goes with a data layout: OIHW with NCHW, HWIO with NHWC, others likewise."""
    spatial = layout.strip("NC")
    return f"OI{spatial}" if layout.startswith("NC") else f"{spatial}IO"


def tensor_shape(layout: str, spatial: Sequence[int], **extents: int) -> tuple[int, ...]:
    """Shape of a tensor; extents of axes that are not spatial by letter, as N=1 and C=3 for NHWC."""
    letters = [letter for letter in layout if letter not in extents]
    by_letter = extents | dict(zip(letters, spatial, strict=True))
    return tuple(by_letter[letter] for letter in layout)
