"""This machine's CPU as the programs of a target use it: so many cores, so wide vectors."""

from __future__ import annotations

from dataclasses import replace

from tvm.target import Target

from .hardware import Hardware, probe_cpu
from .tvm_compat import target_cores, target_vectors

_DOUBLE_PUMPED_BITS = {("AuthenticAMD", "25"): 256}
"""Families whose units are narrower than their widest vectors: Zen 4 works on 512 bits in two halves."""


def target_hardware(target: Target) -> Hardware:
    """Probes this machine; what the target's code generation leaves unused of it is not counted.

    So records of x86-64-v2, -v3 and -v4 on one machine are of three devices, with ids and features of their
    own. A target that uses all that the machine has gives the machine's own description.
    """
    return limited_to(probe_cpu(target_cores(target)), *target_vectors(target))


def limited_to(hardware: Hardware, vector_bits: int | None, fused: bool) -> Hardware:
    """The device for code with vectors of at most `vector_bits`, None for no limit.

    The measured arithmetic peak is scaled down by the width that the arithmetic units lose, and halved where
    a multiplication and an addition are not `fused` though the device could: an estimate of the lower
    ceiling, since torch, which measures it, has its own code generation.
    """
    if vector_bits is None:
        return hardware
    bits = min(vector_bits, hardware.vector_bits)
    loses_fusion = not fused and "fma" in hardware.details.get("instruction_sets", ())
    if bits == hardware.vector_bits and not loses_fusion:
        return hardware
    family = (str(hardware.details.get("vendor")), str(hardware.details.get("family")))
    unit_bits = min(_DOUBLE_PUMPED_BITS.get(family, hardware.vector_bits), hardware.vector_bits)
    share = min(bits, unit_bits) / unit_bits * (0.5 if loses_fusion else 1.0)
    machine = {"machine_vector_bits": hardware.vector_bits, "machine_peak_gflops": hardware.peak_gflops}
    return replace(
        hardware,
        vector_bits=bits,
        peak_gflops=hardware.peak_gflops * share,
        details={**hardware.details, **machine, "fused_multiply_add": fused},
    )
