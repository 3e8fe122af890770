"""Instruction sets of CPUs and GPUs, one row each: vectors, multiply-adds, conversions, tensor cores.

A new instruction set of a CPU needs a row of `VECTOR_SETS` for its vectors, rows of `INSTRUCTIONS` for its
multiply-adds, and rows of `CONVERSIONS`. A new GPU needs rows of `GPUS` and `TENSOR_CORES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .types import data_type


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
    widens: bool = False
    """Whether the instruction adds products of 16 bits in pairs, so that 8-bit operands are widened."""

    @property
    def types(self) -> tuple[str, str, str]:
        """Data types of data, weight and accumulator."""
        return self.data, self.weight, self.accumulator

    @property
    def word_bytes(self) -> int:
        """Bytes of the data that one accumulator takes at once."""
        return self.step * data_type(self.data).bytes

    def most_rows(self, vectors: int) -> int:
        """Rows of a register tile at most, of `vectors` vectors each, with the operands in registers as well.

        Operands are the weights of all vectors, and a word of data. Widened ones have two halves each. A
        product is then a vector of its own before it is added, and one vector is a mask.
        """
        operands = 2 * vectors + 4 if self.widens else vectors + 1
        return (self.registers - operands) // vectors

    def work(self, rows: int, vectors: int) -> float:
        """Multiply-adds, and what takes as long, of one step of a register tile.

        Widened operands need two products and two sums for each vector of the tile, two instructions for each
        word of data, and three for each vector of weights. Most of these run in any of four vector units, of
        which two multiply: four instructions count as two multiply-adds.
        """
        products = rows * vectors
        return 2 * products + rows + 1.5 * vectors if self.widens else products


_F32 = ("float32", "float32", "float32")
_F16 = ("float16", "float16", "float16")
_BF16 = ("bfloat16", "bfloat16", "float32")
_U8S8 = ("uint8", "int8", "int32")
_S8S8 = ("int8", "int8", "int32")
_AMX_BF16, _AMX_INT8 = ("amx-tile", "amx-bf16"), ("amx-tile", "amx-int8")
_DPBF16 = "llvm.x86.avx512bf16.dpbf16ps.512"
_VNNI_512, _VNNI_256 = "llvm.x86.avx512.vpdpbusd.512", "llvm.x86.avx512.vpdpbusd.256"
_MADD_512, _MADD_256 = "llvm.x86.avx512.pmaddw.d.512", "llvm.x86.avx2.pmadd.wd"

INSTRUCTIONS: tuple[Instruction, ...] = (
    Instruction("amx_bf16", _AMX_BF16, *_BF16, 16, 2, 8, "llvm.x86.tdpbf16ps", tiles=True),
    Instruction("amx_u8s8", _AMX_INT8, *_U8S8, 16, 4, 8, "llvm.x86.tdpbusd", tiles=True),
    Instruction("amx_s8s8", _AMX_INT8, *_S8S8, 16, 4, 8, "llvm.x86.tdpbssd", tiles=True),
    Instruction("avx512_bf16", ("avx512bf16",), *_BF16, 16, 2, 32, _DPBF16),
    Instruction("avx512_vnni_u8s8", ("avx512vnni",), *_U8S8, 16, 4, 32, _VNNI_512),
    Instruction("avx512_vnni_s8s8", ("avx512vnni",), *_S8S8, 16, 4, 32, _VNNI_512, shifts=True),
    Instruction("avx_vnni_u8s8", ("avxvnni",), *_U8S8, 8, 4, 16, _VNNI_256),
    Instruction("avx_vnni_s8s8", ("avxvnni",), *_S8S8, 8, 4, 16, _VNNI_256, shifts=True),
    Instruction("avx512_madd_u8s8", ("avx512bw",), *_U8S8, 16, 4, 32, _MADD_512, widens=True),
    Instruction("avx512_madd_s8s8", ("avx512bw",), *_S8S8, 16, 4, 32, _MADD_512, widens=True),
    Instruction("avx2_madd_u8s8", ("avx2",), *_U8S8, 8, 4, 16, _MADD_256, widens=True),
    Instruction("avx2_madd_s8s8", ("avx2",), *_S8S8, 8, 4, 16, _MADD_256, widens=True),
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


def step_of(dtype: str) -> int:
    """Elements of the reduction that one accumulator takes at once, in the instructions of a data type."""
    return max((one.step for one in INSTRUCTIONS if one.weight == dtype), default=1)


def registers_of(vector_bits: int) -> int:
    """Vector registers of a CPU whose registers have so many bits."""
    fitting = (one.registers for one in VECTOR_SETS if one.bits <= vector_bits)
    return next(fitting, min(one.registers for one in VECTOR_SETS))
