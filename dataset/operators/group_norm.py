"""Group normalisation (Wu and He, ECCV 2018): channels are normalised in groups, each image by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tvm import te, topi

from .epilogue import fuse
from .normalisation import EPSILON
from .settings import FLOATS, OperatorSettings, SettingsError


@dataclass(frozen=True, kw_only=True)
class GroupNorm(OperatorSettings):
    """(x - mean) / sqrt(variance + 1e-5) * weight + bias over the elements of a group.

    A group has channels / groups x height x width of them. Data [batch, channels, height, width]; weight and
    bias are [channels]. With one group it is a layer norm over the whole image, with as many as channels an
    instance norm. Sums in float32 for float16 too, as PyTorch and Relax do.
    """

    operator: ClassVar[str] = "group_norm"
    epilogues: ClassVar[tuple[str, ...]] = ("none", "relu", "silu")
    dtypes: ClassVar[tuple[str, ...]] = FLOATS

    batch: int
    channels: int
    groups: int
    height: int
    width: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_at_least(1, "batch", "channels", "groups", "height", "width")
        if self.channels % self.groups:
            raise SettingsError(
                f"{self.operator}: groups={self.groups} does not divide the {self.channels} channels: use a "
                "divisor"
            )

    @property
    def flops(self) -> int:
        """Three an element for the sums of it and of its square, eleven to normalise it.

        The naive loop nest derives the mean and variance from the sums at each element again.
        """
        return 14 * self.batch * self.channels * self.height * self.width

    @property
    def label(self) -> str:
        return f"{self.batch}x{self.channels}x{self.height}x{self.width}_g{self.groups}"

    def tensors(self) -> list[te.Tensor]:
        shape = (self.batch, self.channels, self.height, self.width)
        data = te.placeholder(shape, dtype=self.dtype, name="data")
        weight, bias = (te.placeholder((self.channels,), self.dtype, name) for name in ("weight", "bias"))
        output = topi.nn.group_norm(
            data, weight, bias, num_groups=self.groups, channel_axis=1, axes=[2, 3], epsilon=EPSILON
        )
        inputs, output = fuse(output, self.epilogue, (self.channels,))
        return [data, weight, bias, *inputs, output]
