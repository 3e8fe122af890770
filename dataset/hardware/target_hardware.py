"""This machine's CPU restricted to the cores, instruction sets and vectors that programs use."""

from __future__ import annotations

import re
from dataclasses import replace

from tvm.target import Target

from ...compiler.targets import traits
from ...compiler.tvm_compat import host_features, older_cpu, parse_target
from . import Hardware, probe_cpu

_DOUBLE_PUMPED_BITS = {("AuthenticAMD", "25"): 256}
"""Arithmetic width in bits of CPU families below their widest vectors: Zen 4 splits 512 bits in halves."""

_SEPARATE_ADDERS = {("AuthenticAMD", family) for family in ("23", "25", "26")}
"""CPU families that add in other units than they multiply: without fused multiply-add, Zen keeps its rate."""


def target_hardware(target: Target, measured: bool = True) -> Hardware:
    """Probe this machine and restrict it to the features that the target's generated code uses.

    `measured` False leaves out the figures that take seconds to measure; see `probe_cpu`.

    Records for x86-64-v2, -v3 and -v4 on one machine thus belong to three devices with different ids and
    features. For a target that uses the whole machine, the result is the machine's own description. Raises
    OlderCpuError.
    """
    can = traits(target)
    return limit_vectors(host_hardware(can.cores, measured), can.vector_bits, can.fuses_multiply_add)


def host_hardware(cores: int, measured: bool = True) -> Hardware:
    """Probe this machine's CPU, restricted to the older one that FORETUNE_CPU names; see `probe_cpu`.

    Such a device has its own name and id, and its peak is the estimate of `limit_vectors`. Raises
    OlderCpuError.
    """
    machine = probe_cpu(cores, measured)
    older = older_cpu()
    if older is None:
        return machine
    can = traits(parse_target("llvm"))
    limited = limit_vectors(machine, can.vector_bits, can.fuses_multiply_add)
    here = {_plain(name) for name, is_there in host_features().items() if is_there}
    found = [name for name in limited.details.get("instruction_sets", ()) if _plain(name) in here]
    return replace(
        limited, name=f"{machine.name} as {older}", details={**limited.details, "instruction_sets": found}
    )


def _plain(feature: str) -> str:
    """CPU feature in a common spelling: avx512_bf16 equals avx512bf16, and sse4_2 equals sse4.2."""
    return re.sub(r"[-_.]", "", feature)


def limit_vectors(hardware: Hardware, vector_bits: int | None, fused: bool) -> Hardware:
    """Device as seen by code with vectors of at most `vector_bits`; None sets no limit.

    The measured arithmetic peak is scaled by the lost arithmetic width. It is also halved if code does not
    use the device's fused multiply-add (`fused`), unless the device has separate units for additions. The
    lower peak is an estimate, because torch, which measures the peak, generates its own code.
    """
    if vector_bits is None:
        return hardware
    bits = min(vector_bits, hardware.vector_bits)
    loses_fusion = not fused and "fma" in hardware.details.get("instruction_sets", ())
    if bits == hardware.vector_bits and not loses_fusion:
        return hardware
    family = (str(hardware.details.get("vendor")), str(hardware.details.get("family")))
    unit_bits = min(_DOUBLE_PUMPED_BITS.get(family, hardware.vector_bits), hardware.vector_bits)
    halved = loses_fusion and family not in _SEPARATE_ADDERS
    share = min(bits, unit_bits) / unit_bits * (0.5 if halved else 1.0)
    machine = {"machine_vector_bits": hardware.vector_bits, "machine_peak_gflops": hardware.peak_gflops}
    return replace(
        hardware,
        vector_bits=bits,
        peak_gflops=hardware.peak_gflops * share,
        details={**hardware.details, **machine, "fused_multiply_add": fused},
    )
