"""Targets: one object says what the code for a CPU or a GPU may use.

Rows describe instruction sets. A new one needs a row of `VECTOR_SETS` for its vectors, rows of `INSTRUCTIONS`
for its multiply-adds, and rows of `CONVERSIONS`. A new GPU needs rows of `GPUS` and `TENSOR_CORES`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from tvm.target import Target
from tvm.target.codegen import llvm_cpu_has_features

from ..errors import UserError
from .host.threads import available_cores
from .structure.limits import GpuLimits
from .types import STORED, WIDE, DataType, data_type


class MissingInstructionError(UserError, ValueError):
    """The target has no instruction for a data type."""


@dataclass(frozen=True)
class VectorSet:
    """Vector registers of an instruction set."""

    features: tuple[str, ...]
    """LLVM's names of the features that a target must have."""
    bits: int
    registers: int
    multiply_add: tuple[str, ...] = ()
    """Features that a fused multiply-add needs in addition."""


VECTOR_SETS: tuple[VectorSet, ...] = (
    VectorSet(("avx512f",), 512, 32, ("fma",)),
    VectorSet(("avx",), 256, 16, ("fma",)),
    VectorSet(("sse2",), 128, 16, ("fma",)),
)
"""Vector registers by instruction set, the widest first."""


@dataclass(frozen=True)
class Instruction:
    """Multiply-add of all lanes of a vector, which may add products in pairs or fours."""

    name: str
    """Name in the names of tensor intrinsics; it never changes, as traces refer to it."""
    features: tuple[str, ...]
    """LLVM's names of the features that the target must have."""
    data: str
    """Data type of the left operand, the data of an operator."""
    weight: str
    """Data type of the right operand, the weight."""
    accumulator: str
    lanes: int
    """Accumulators of one vector, or columns of one tile."""
    step: int
    """Elements of the reduction that one accumulator takes at once."""
    registers: int
    """Vector registers, or tiles."""
    llvm: str
    """Name of LLVM's intrinsic."""
    tiles: bool = False
    """Whether operands are tiles of two dimensions, as those of AMX."""
    shifts: bool = False
    """Whether the instruction reads unsigned data, so that signed data is shifted by 128."""

    @property
    def types(self) -> tuple[str, str, str]:
        """Data types of data, weight and accumulator."""
        return self.data, self.weight, self.accumulator

    @property
    def word_bytes(self) -> int:
        """Bytes of the data that one accumulator takes at once."""
        return self.step * data_type(self.data).bytes


_F32 = ("float32", "float32", "float32")
_F16 = ("float16", "float16", "float16")
_BF16 = ("bfloat16", "bfloat16", "float32")
_U8S8 = ("uint8", "int8", "int32")
_S8S8 = ("int8", "int8", "int32")
_AMX_BF16, _AMX_INT8 = ("amx-tile", "amx-bf16"), ("amx-tile", "amx-int8")
_DPBF16 = "llvm.x86.avx512bf16.dpbf16ps.512"
_VNNI_512, _VNNI_256 = "llvm.x86.avx512.vpdpbusd.512", "llvm.x86.avx512.vpdpbusd.256"

INSTRUCTIONS: tuple[Instruction, ...] = (
    Instruction("amx_bf16", _AMX_BF16, *_BF16, 16, 2, 8, "llvm.x86.tdpbf16ps", tiles=True),
    Instruction("amx_u8s8", _AMX_INT8, *_U8S8, 16, 4, 8, "llvm.x86.tdpbusd", tiles=True),
    Instruction("amx_s8s8", _AMX_INT8, *_S8S8, 16, 4, 8, "llvm.x86.tdpbssd", tiles=True),
    Instruction("avx512_bf16", ("avx512bf16",), *_BF16, 16, 2, 32, _DPBF16),
    Instruction("avx512_vnni_u8s8", ("avx512vnni",), *_U8S8, 16, 4, 32, _VNNI_512),
    Instruction("avx512_vnni_s8s8", ("avx512vnni",), *_S8S8, 16, 4, 32, _VNNI_512, shifts=True),
    Instruction("avx_vnni_u8s8", ("avxvnni",), *_U8S8, 8, 4, 16, _VNNI_256),
    Instruction("avx_vnni_s8s8", ("avxvnni",), *_S8S8, 8, 4, 16, _VNNI_256, shifts=True),
    Instruction("avx512_fp16_fma", ("avx512fp16",), *_F16, 32, 1, 32, "llvm.fma.v32f16"),
    Instruction("avx512_fma", ("avx512f",), *_F32, 16, 1, 32, "llvm.fma.v16f32"),
    Instruction("avx2_fma", ("avx2", "fma"), *_F32, 8, 1, 16, "llvm.fma.v8f32"),
)
"""All multiply-adds of CPUs, the fastest of each data type first."""

INSTRUCTION = {instruction.name: instruction for instruction in INSTRUCTIONS}
"""Instruction by name."""


@dataclass(frozen=True)
class Conversion:
    """Instructions of a CPU that convert between a data type and float32."""

    dtype: str
    features: tuple[str, ...]


CONVERSIONS: tuple[Conversion, ...] = (
    Conversion("float16", ("f16c",)),
    Conversion("bfloat16", ("avx512bf16",)),
)
"""All conversions. TVM rounds to bfloat16 by arithmetic on a CPU without one."""


@dataclass(frozen=True)
class TensorCore:
    """Products that tensor cores of NVIDIA GPUs compute."""

    operand: str
    accumulator: str
    capability: int
    """Compute capability, times 10, from which TVM's intrinsics run."""
    by_mma: bool = True
    """Whether MMA computes them as well as WMMA."""


TENSOR_CORES: tuple[TensorCore, ...] = (
    TensorCore("float16", "float16", 75),
    TensorCore("float16", "float32", 75),
    TensorCore("bfloat16", "float32", 80),
    TensorCore("int8", "int32", 75, by_mma=False),
)
"""All products of tensor cores, in the order of MetaSchedule's design spaces."""


@dataclass(frozen=True)
class Gpu:
    """Facts of an architecture for the GPU templates; rates are from NVIDIA's white papers, not measured."""

    capability: int
    """80 for sm_80."""
    processors: int
    """Streaming multiprocessors of the largest shipped device: A100, H100 SXM."""
    shared_bytes: int
    """Shared memory that a block may have."""
    multiply_adds: int
    """Of float16 in tensor cores, a cycle and multiprocessor."""
    load_bytes: float
    """From the second-level cache, a cycle and multiprocessor."""


GPUS: Mapping[int, Gpu] = {
    80: Gpu(80, 108, 163 * 1024, 1024, 47.0),
    90: Gpu(90, 132, 227 * 1024, 2048, 42.0),
}
"""GPUs with templates by compute capability."""


@dataclass(frozen=True, eq=False)
class TargetTraits:
    """Traits of one target. Its mcpu, mattr and arch decide, and never the machine that asks."""

    target: Target

    @property
    def on_cpu(self) -> bool:
        """Whether LLVM generates code for a CPU."""
        return is_cpu(self.target)

    @property
    def on_cuda(self) -> bool:
        """Whether the target is an NVIDIA GPU."""
        return is_cuda(self.target)

    @property
    def name(self) -> str:
        """The CPU or the kind of the target, as errors name it."""
        kind = str(self.target.kind.name)
        return str(self.target.attrs.get("mcpu", "generic")) if self.on_cpu else kind

    @property
    def cores(self) -> int:
        """CPU cores that programs use: the target's num-cores, else all cores of this process."""
        return int(self.target.attrs.get("num-cores", available_cores()))

    # --- CPUs -----------------------------------------------------------------------------------------------

    @cached_property
    def vectors(self) -> VectorSet | None:
        """Widest vector registers; None if no row of VECTOR_SETS describes the target."""
        return next((one for one in VECTOR_SETS if self.has(one.features)), None)

    @property
    def vector_bits(self) -> int | None:
        """Bits of a vector register; None if they are not known."""
        return None if self.vectors is None else self.vectors.bits

    @property
    def fuses_multiply_add(self) -> bool:
        """Whether code uses fused multiply-add; assumed for CPUs whose vectors are not known."""
        return self.vectors is None or self.has(self.vectors.multiply_add)

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """Multiply-adds, the fastest of each data type first."""
        return tuple(one for one in INSTRUCTIONS if self.has(one.features))

    @property
    def tile_registers(self) -> int:
        """Registers of two dimensions; 0 for most CPUs."""
        return max((one.registers for one in self.instructions if one.tiles), default=0)

    def converts(self, dtype: str) -> bool:
        """Whether an instruction converts between a data type and float32."""
        return any(one.dtype == dtype and self.has(one.features) for one in CONVERSIONS)

    def has(self, features: Sequence[str]) -> bool:
        """Whether code of the target may use all these features of a CPU, by LLVM's names."""
        if not self.on_cpu:
            return False
        return not features or bool(llvm_cpu_has_features(list(features), self.target))

    # --- GPUs -----------------------------------------------------------------------------------------------

    @property
    def capability(self) -> int:
        """Compute capability times 10; 0 for a device without one."""
        arch = str(self.target.attrs.get("arch", "")) if self.on_cuda else ""
        return int(re.sub(r"\D", "", arch) or 0)

    @property
    def tensor_cores(self) -> tuple[TensorCore, ...]:
        """Products that its tensor cores compute."""
        return tuple(one for one in TENSOR_CORES if self.capability >= one.capability)

    @property
    def limits(self) -> GpuLimits | None:
        """Limits of a thread block; None for a CPU."""
        if not self.on_cuda:
            return None
        attributes = dict(self.target.attrs.items())
        return GpuLimits(
            threads=int(attributes.get("max_threads_per_block", GpuLimits.threads)),
            shared_bytes=int(attributes.get("max_shared_memory_per_block", GpuLimits.shared_bytes)),
        )

    @property
    def gpu(self) -> Gpu | None:
        """Facts for the GPU templates; None for a target without templates.

        Kernels for sm_90 use features that no later GPU has; GPUs without a row of their own run the kernels
        for sm_80.
        """
        known = self.capability if self.capability in GPUS else min(GPUS)
        return GPUS[known] if self.capability >= known else None

    # --- Networks -------------------------------------------------------------------------------------------

    def product_sums(self, dtype: DataType) -> str:
        """Data type in which products of a network in a stored type are summed.

        It is the type itself if an instruction of the CPU multiplies and adds in it, otherwise float32.
        """
        narrow = (dtype.name, dtype.name, dtype.name)
        return dtype.name if any(one.types == narrow for one in self.instructions) else WIDE

    def require(self, dtype: DataType) -> None:
        """Raises MissingInstructionError if networks in this data type do not run on the target."""
        data, weight = dtype.factors
        if self.on_cuda and dtype.network == STORED:
            self._require_tensor_cores(dtype.name)
        elif dtype.network == STORED and not dtype.needs_products:
            self._require_conversion(dtype.name)
        elif dtype.name != WIDE:
            require_instructions(self.target, data, weight, dtype.sums)

    def _require_tensor_cores(self, dtype: str) -> None:
        if any(one.operand == dtype for one in self.tensor_cores):
            return
        least = min(one.capability for one in TENSOR_CORES if one.operand == dtype)
        arch = self.target.attrs.get("arch", "unknown")
        raise MissingInstructionError(
            f"target=cuda lowering.dtype={dtype}: {arch} multiplies no {dtype}; use a GPU from sm_{least} "
            "on, or float32"
        )

    def _require_conversion(self, dtype: str) -> None:
        if self.converts(dtype):
            return
        known = " or ".join("+".join(one.features) for one in CONVERSIONS if one.dtype == dtype)
        raise MissingInstructionError(
            f"target={self.name} lowering.dtype={dtype}: no instruction converts between {dtype} and "
            f"float32; use a target with {known}, or float32"
        )


@lru_cache(maxsize=64)
def traits(target: Target) -> TargetTraits:
    """Traits of a target."""
    return TargetTraits(target)


def is_cpu(target: Target) -> bool:
    """Whether LLVM generates code for a CPU."""
    return bool(target.kind.name == "llvm")


def is_cuda(target: Target) -> bool:
    """Whether the target is an NVIDIA GPU."""
    return bool(target.kind.name == "cuda")


def target_instructions(target: Target, data: str, weight: str, accumulator: str) -> list[Instruction]:
    """Instructions of a target for these data types, the fastest first; an empty list if it has none."""
    types = (data, weight, accumulator)
    return [instruction for instruction in traits(target).instructions if instruction.types == types]


def require_instructions(target: Target, data: str, weight: str, accumulator: str) -> list[Instruction]:
    """`target_instructions`; raises MissingInstructionError if there is none."""
    found = target_instructions(target, data, weight, accumulator)
    if found:
        return found
    known = [other for other in INSTRUCTIONS if other.types == (data, weight, accumulator)]
    if known:
        targets = " or ".join("+".join(other.features) for other in known)
        advice = f"use a target with {targets}, or another data type"
    else:
        types = sorted({f"{o.data} x {o.weight} -> {o.accumulator}" for o in INSTRUCTIONS})
        advice = f"use one of {', '.join(types)}"
    raise MissingInstructionError(
        f"target={traits(target).name}: no multiply-add instruction for {data} x {weight} -> {accumulator}; "
        f"{advice}"
    )


def step_of(dtype: str) -> int:
    """Elements of the reduction that one accumulator takes at once, in the instructions of a data type."""
    return max((one.step for one in INSTRUCTIONS if one.weight == dtype), default=1)


def registers_of(vector_bits: int) -> int:
    """Vector registers of a CPU whose registers have so many bits."""
    fitting = (one.registers for one in VECTOR_SETS if one.bits <= vector_bits)
    return next(fitting, min(one.registers for one in VECTOR_SETS))
