"""Group normalisation (Wu and He, ECCV 2018): channels are normalised in groups, each image on its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tvm import te, topi
from typing_extensions import Self

from .registry import register
from .settings import FLOATS, OperatorSettings
from .shared.checks import SettingsError
from .shared.epilogue import fuse
from .shared.knobs import BATCH, Knob, epilogue_knob
from .shared.rows import EPSILON
from .shared.tir import TirFunction, extents
from .shared.torch_call import NotDescribedError, TorchCall
from .shared.uniform import LARGEST_GROUPS, up_to

if TYPE_CHECKING:
    import numpy as np
    import torch


@register
@dataclass(frozen=True, kw_only=True)
class GroupNorm(OperatorSettings):
    """(x - mean) / sqrt(variance + 1e-5) * weight + bias over the elements of a group.

    A group has channels / groups x height x width of them. Data [batch, channels, height, width]; weight and
    bias are [channels]. One group is a layer norm over the whole image, as many groups as channels an
    instance norm. Sums are float32 for float16 too, as in PyTorch and Relax.
    """

    operator: ClassVar[str] = "group_norm"
    random_networks = ("group_normed_network",)
    epilogues: ClassVar[tuple[str, ...]] = ("none", "relu", "silu")
    dtypes: ClassVar[tuple[str, ...]] = FLOATS
    marker: ClassVar[str] = "T_group_norm"
    calls: ClassVar[tuple[str, ...]] = ("aten.native_group_norm",)
    draw_order: ClassVar[int] = 11
    share: ClassVar[float] = 0.005
    knobs: ClassVar[tuple[Knob, ...]] = (
        Knob(("channels",)),
        Knob(("groups",), (("channels",),)),
        Knob(("height", "width"), (("channels",),)),
        BATCH,
        epilogue_knob("channels"),
    )

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
        """Three per element for the sums of it and of its square, eleven to normalise it.

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

    @classmethod
    def read_tir(cls, function: TirFunction) -> dict[str, Any] | None:
        data = function.blocks[cls.marker].writes[0].source
        if len(data.shape) != 5:  # [batch, groups, channels / groups, height, width] of images
            return None
        batch, groups, channels, height, width = extents(data)
        return {
            "batch": batch,
            "channels": groups * channels,
            "groups": groups,
            "height": height,
            "width": width,
            "dtype": str(data.dtype),
        }

    @classmethod
    def type_of(cls, function: TirFunction) -> str | None:
        """Norms of TVM's operator library, such as a group norm of video."""
        return "norm" if any(name.endswith("_norm") for name in function.blocks) else None

    @classmethod
    def read_call(cls, call: TorchCall) -> Self:
        data, groups = call.args[0], call.args[6]
        if data.dim() != 4:
            raise NotDescribedError("group norm that is not over images")
        _, channels, height, width = data.shape
        return cls(batch=call.args[3], channels=channels, groups=groups, height=height, width=width)

    @classmethod
    def draw_uniform(cls, rng: np.random.Generator, **drawn: Any) -> dict[str, Any]:
        values = super().draw_uniform(rng, **drawn)
        groups = up_to(LARGEST_GROUPS, rng)
        return {
            **values,
            "groups": groups,
            "channels": groups * up_to(cls.largest["channels"] // groups, rng),
        }

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (
            cls(batch=2, channels=6, groups=3, height=4, width=5),
            cls(batch=2, channels=4, groups=1, height=3, width=5),
            cls(batch=1, channels=4, groups=4, height=5, width=3, epilogue="relu"),
            cls(batch=1, channels=4, groups=1, height=3, width=5, epilogue="silu"),
        )

    def reference(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        from torch.nn.functional import group_norm

        data, weight, bias = inputs
        return group_norm(data, self.groups, weight, bias)
