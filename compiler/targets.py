"""Targets: one object holds the instructions and limits of a CPU or a GPU.

The rows of `instruction_sets` describe the instructions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from tvm.target import Target
from tvm.target.codegen import llvm_cpu_has_features

from ..errors import UserError
from .host.threads import available_cores
from .instruction_sets import (
    CONVERSIONS,
    GPUS,
    INSTRUCTIONS,
    TENSOR_CORES,
    VECTOR_SETS,
    Gpu,
    Instruction,
    TensorCore,
    VectorSet,
)
from .structure.limits import GpuLimits
from .types import STORED, WIDE, DataType


class MissingInstructionError(UserError, ValueError):
    """The target has no instruction for a data type."""


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
        """Multiply-adds, the fastest of each data type first.

        Those that widen their operands are left out if another one has their types: they are slower.
        """
        found = [one for one in INSTRUCTIONS if self.has(one.features)]
        direct = {one.types for one in found if not one.widens}
        return tuple(one for one in found if not (one.widens and one.types in direct))

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
            registers=int(attributes.get("registers_per_block", GpuLimits.registers)),
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
