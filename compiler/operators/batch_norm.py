"""Batch normalisation by the batch's own statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tvm import te, topi
from typing_extensions import Self

from .registry import register
from .settings import FLOATS, OperatorSettings
from .shared.epilogue import fuse
from .shared.knobs import BATCH, Knob, epilogue_knob
from .shared.rows import EPSILON
from .shared.torch_call import NotDescribedError, TorchCall

if TYPE_CHECKING:
    import torch

BATCH_NORMS = (
    "aten.native_batch_norm",
    "aten._native_batch_norm_legit_no_training",
    "aten.cudnn_batch_norm",
)
"""ATen functions of batch norms."""


@register
@dataclass(frozen=True, kw_only=True)
class BatchNorm(OperatorSettings):
    """Normalises each channel by its mean and variance: data [batch, channels, height, width].

    Weight and bias are [channels]. Networks run this in training, or if they keep no statistics; with kept
    statistics a batch norm folds into a weight or is element-wise, and no decision is left. Sums are float32
    for float16 too, as in PyTorch.
    """

    operator: ClassVar[str] = "batch_norm"
    random_networks = ("linear_stack",)
    epilogues: ClassVar[tuple[str, ...]] = ("none", "relu")
    dtypes: ClassVar[tuple[str, ...]] = FLOATS
    calls: ClassVar[tuple[str, ...]] = BATCH_NORMS
    counts_as_tvm: ClassVar[bool] = False
    draw_order: ClassVar[int] = 16
    share: ClassVar[float] = 0.01
    knobs: ClassVar[tuple[Knob, ...]] = (
        Knob(("channels",)),
        Knob(("height", "width"), (("channels",),)),
        BATCH,
        epilogue_knob("channels"),
    )

    batch: int
    channels: int
    height: int
    width: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_at_least(1, "batch", "channels", "height", "width")

    @property
    def op_pattern(self) -> int | None:
        return None

    @property
    def flops(self) -> int:
        """Four per element for the sums of it and of its squared difference, five to normalise it."""
        return 9 * self.batch * self.channels * self.height * self.width

    @property
    def label(self) -> str:
        return f"{self.batch}x{self.channels}x{self.height}x{self.width}"

    def tensors(self) -> list[te.Tensor]:
        shape = (self.batch, self.channels, self.height, self.width)
        data = te.placeholder(shape, dtype=self.dtype, name="data")
        weight, bias, *kept = (
            te.placeholder((self.channels,), dtype=self.dtype, name=name)
            for name in ("weight", "bias", "mean", "variance")
        )
        wide = [x if self.dtype == "float32" else topi.cast(x, "float32") for x in (data, weight, bias)]
        # Training updates the kept statistics; the output does not read them.
        output, *_ = topi.nn.batch_norm(*wide, *kept, axis=1, epsilon=EPSILON, training=True)
        output = output if self.dtype == "float32" else topi.cast(output, self.dtype)
        inputs, output = fuse(output, self.epilogue, (self.channels,))
        return [data, weight, bias, *inputs, output]

    @classmethod
    def read_call(cls, call: TorchCall) -> Self:
        data = call.args[0]
        if data.dim() != 4:
            raise NotDescribedError("batch norm of its own that is not over images")
        batch, channels, height, width = data.shape
        return cls(batch=batch, channels=channels, height=height, width=width)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (cls(batch=2, channels=3, height=4, width=5),)

    def reference(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        from torch.nn.functional import batch_norm

        data, weight, bias = inputs
        return batch_norm(data, None, None, weight, bias, training=True)
