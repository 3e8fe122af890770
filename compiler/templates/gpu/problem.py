"""Products that the GPU templates compute, and the arguments of their kernels. Works without Triton."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from ....errors import UserError
from ....wording import counted
from ...instruction_sets import Gpu
from ...types import TYPES, data_type
from .launches import COLUMNS, WORKSPACE, Launch, power_of_two, row_warps
from .tiling import Tiling, product_cycles, product_tilings

Array = TypeVar("Array")

ACTIVATIONS: Mapping[str, int] = {
    "none": 0,
    "relu": 1,
    "gelu": 2,
    "hardswish": 3,
    "silu": 4,
    "softplus": 5,
}
"""Activations of an epilogue by the number that a kernel takes."""

DTYPES: Mapping[str, str] = {one.triton: one.name for one in TYPES if one.triton}
"""Name of a data type in TVM and PyTorch by that in Triton."""

HALVES = tuple(name for name, dtype in DTYPES.items() if data_type(dtype).bits == 16)
"""Triton's names of the data types that tensor cores multiply here."""

NOTHING, DTYPE = "", "dtype"
"""Data types of an operand of an epilogue that is not there, and of one that has the factors' type."""


class GpuTemplateError(UserError, ValueError):
    """A product that no GPU template computes."""


@dataclass(frozen=True, kw_only=True)
class Problem(ABC):
    """A product with fixed sizes, in the form of [rows, depth] by [depth, columns]."""

    kernel: ClassVar[str]
    """Name of the first kernel."""
    module: ClassVar[str] = "kernels"
    """Module of this folder that defines it."""
    dtypes: ClassVar[tuple[str, ...]] = HALVES
    """Data types that `dtype` may have."""
    divisible: ClassVar[bool] = False
    """Whether several blocks may divide one sum among them, each writing its part."""
    arguments: ClassVar[tuple[str, ...]] = ("left", "right", "bias", "residual", "output")
    """Arrays of the problem, in the order in which the first kernel takes them."""

    activation: str = "none"
    dtype: str = "fp16"
    """Triton's name of the data type of the factors."""
    bias: str = DTYPE
    """Data type of the bias of each column; NOTHING without one."""
    residual: str = NOTHING
    """Data type of the residual that each element gets before the activation; NOTHING without one."""
    output: str = DTYPE
    """Data type of the output."""

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise GpuTemplateError(
                f"activation={self.activation}: no template has it; use one of {', '.join(ACTIVATIONS)}"
            )
        if self.dtype not in self.dtypes:
            raise GpuTemplateError(f"dtype={self.dtype}: tensor cores take fp16 and bf16 here")
        for name, least in (("bias", NOTHING), ("residual", NOTHING), ("output", DTYPE)):
            value = getattr(self, name)
            if value not in (least, DTYPE, *DTYPES):
                raise GpuTemplateError(f"{name}={value}: use fp16, bf16 or fp32")

    @property
    def types(self) -> Mapping[str, str]:
        """Data type of each array of the kernel, in order; arrays that are not there have none."""
        known: dict[str, str] = {name: getattr(self, name, DTYPE) for name in self.arguments}
        return {
            name: self.dtype if known[name] == DTYPE else known[name]
            for name in self.arguments
            if known[name] != NOTHING
        }

    @property
    def pointers(self) -> tuple[str, ...]:
        """Names of the arrays that there are, in order."""
        return tuple(self.types)

    @property
    def shapes(self) -> Sequence[tuple[int, ...]]:
        """Shapes of the arrays `pointers`; the output is the last."""
        every = self.every_shape
        return [every[name] for name in self.pointers]

    @property
    @abstractmethod
    def extents(self) -> tuple[int, int, int]:
        """`rows`, `columns` and `depth`."""

    @property
    def rows(self) -> int:
        """Rows of the output."""
        return self.extents[0]

    @property
    def columns(self) -> int:
        """Columns of the output that a block may divide among others."""
        return self.extents[1]

    @property
    def depth(self) -> int:
        """Length of each sum."""
        return self.extents[2]

    @property
    @abstractmethod
    def sizes(self) -> Mapping[str, int]:
        """Arguments of the kernel that are numbers, in order."""

    @property
    @abstractmethod
    def every_shape(self) -> Mapping[str, tuple[int, ...]]:
        """Shape of each array of `arguments`, also of arrays that are not there."""

    def grid(self, tiling: Tiling) -> tuple[int, ...]:
        """Blocks of the first launch."""
        blocks = -(-self.rows // tiling.block_m), -(-self.columns // tiling.block_n)
        return (*blocks, tiling.parts) if self.divisible else blocks

    def constants(self, tiling: Tiling) -> dict[str, float]:
        """Constants that the first kernel is compiled with."""
        blocks = {"BLOCK_M": tiling.block_m, "BLOCK_N": tiling.block_n, "BLOCK_K": tiling.block_k}
        return {"PARTS": tiling.parts, **self._epilogue, **blocks}

    @property
    def _epilogue(self) -> dict[str, int]:
        """Constants of the epilogue."""
        return {
            "BIAS": int(self.bias != NOTHING),
            "RESIDUAL": int(self.residual != NOTHING),
            "ACTIVATION": ACTIVATIONS[self.activation],
        }

    def launches(self, tiling: Tiling) -> tuple[Launch, ...]:
        """Kernels in order: one that multiplies, then one that adds parts if there are several."""
        apart = self.workspace(tiling) is not None
        constants, arguments = self.constants(tiling), self.arguments
        if apart:
            constants |= {"BIAS": 0, "RESIDUAL": 0, "ACTIVATION": 0}
            factors = self.arguments[:2]
            arguments = (*factors, *[WORKSPACE] * (len(_SUMS) - len(factors)))
        first = Launch(
            kernel=self.kernel,
            module=self.module,
            arguments=arguments,
            sizes=self.sizes,
            constants=constants,
            grid=self.grid(tiling),
            warps=tiling.warps,
            stages=tiling.stages,
        )
        return (first, self._added(tiling)) if apart else (first,)

    def _added(self, tiling: Tiling) -> Launch:
        """The kernel that adds the parts of each sum, and does the epilogue."""
        norm, epsilon = self._norm
        width = power_of_two(self.columns) if norm else min(COLUMNS, power_of_two(self.columns))
        return Launch(
            kernel="rows_of_parts",
            module="row_kernels",
            arguments=(WORKSPACE, "bias", "residual", "scale", "shift", "output"),
            sizes={"rows": self.rows, "columns": self.columns},
            constants={
                **{"PARTS": tiling.parts, **self._epilogue},
                **{"NORM": norm, "EPSILON": epsilon, "BLOCK_N": width},
            },
            grid=(self.rows, -(-self.columns // width)),
            warps=row_warps(width),
        )

    @property
    def _norm(self) -> tuple[int, float]:
        """Number of the normalisation of rows after the epilogue, and its epsilon."""
        return 0, 0.0

    def workspace(self, tiling: Tiling) -> tuple[int, ...] | None:
        """Shape of a float32 array that the kernels hand each other; None for a single kernel."""
        return (tiling.parts, self.rows, self.columns) if self.divisible and tiling.parts > 1 else None

    def tilings(self, gpu: Gpu) -> Iterator[Tiling]:
        """Tilings that are worth a look."""
        return product_tilings(self, gpu)

    def cycles(self, tiling: Tiling, gpu: Gpu) -> float:
        """Estimated cycles of all kernels."""
        return product_cycles(self, tiling, gpu)

    def fits(self, tiling: Tiling) -> bool:
        """Whether the kernel takes the tiling."""
        return True

    def title(self, tiling: Tiling) -> str:
        """The kernel and its tiling in words."""
        blocks = f"{tiling.block_m}x{tiling.block_n}x{tiling.block_k}"
        parts = f", sums in {tiling.parts} parts" if tiling.parts > 1 else ""
        processes = f"{counted(tiling.warps, 'warp')}, {counted(tiling.stages, 'stage')}"
        return f"{self.kernel} in blocks of {blocks}, {processes}{parts}"


_SUMS = ("left", "right", "bias", "residual", "output")


@dataclass(frozen=True, kw_only=True)
class Product(Problem):
    """Matrix product with bias, residual and activation."""

    kernel: ClassVar[str] = "product"
    divisible: ClassVar[bool] = True

    m: int
    n: int
    k: int

    @property
    def extents(self) -> tuple[int, int, int]:
        return self.m, self.n, self.k

    @property
    def sizes(self) -> Mapping[str, int]:
        return {"rows": self.m, "columns": self.n, "depth": self.k}

    @property
    def every_shape(self) -> Mapping[str, tuple[int, ...]]:
        output = (self.m, self.n)
        shapes = ((self.m, self.k), (self.k, self.n), (self.n,), output, output)
        return dict(zip(self.arguments, shapes, strict=True))


@dataclass(frozen=True, kw_only=True)
class Window(Problem):
    """2-D convolution, channels last, with bias, residual and activation."""

    kernel: ClassVar[str] = "convolution"
    divisible: ClassVar[bool] = True
    arguments: ClassVar[tuple[str, ...]] = ("data", "weight", "bias", "residual", "output")

    batch: int
    height: int
    width: int
    channels: int
    filters: int
    kernel_h: int
    kernel_w: int
    stride: int = 1
    padding: int = 0

    @property
    def output_size(self) -> tuple[int, int]:
        """Height and width of the output."""
        return (
            (self.height + 2 * self.padding - self.kernel_h) // self.stride + 1,
            (self.width + 2 * self.padding - self.kernel_w) // self.stride + 1,
        )

    @property
    def extents(self) -> tuple[int, int, int]:
        height, width = self.output_size
        return self.batch * height * width, self.filters, self.kernel_h * self.kernel_w * self.channels

    @property
    def sizes(self) -> Mapping[str, int]:
        height, width = self.output_size
        return {
            **{"batch": self.batch, "height": self.height, "width": self.width, "channels": self.channels},
            **{"out_height": height, "out_width": width, "filters": self.filters},
        }

    @property
    def every_shape(self) -> Mapping[str, tuple[int, ...]]:
        data = (self.batch, self.height, self.width, self.channels)
        weight = (self.kernel_h, self.kernel_w, self.channels, self.filters)
        output = (self.batch, *self.output_size, self.filters)
        return dict(zip(self.arguments, (data, weight, (self.filters,), output, output), strict=True))

    def constants(self, tiling: Tiling) -> dict[str, float]:
        window = {"KERNEL_H": self.kernel_h, "KERNEL_W": self.kernel_w}
        return {**window, "STRIDE": self.stride, "PADDING": self.padding, **super().constants(tiling)}
