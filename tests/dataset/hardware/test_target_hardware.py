"""Tests of the hardware as a target uses it: vector width, fused multiply-add, peaks and ids."""

from __future__ import annotations

from dataclasses import replace

import pytest
from foretune.compiler.targets import traits
from foretune.compiler.tvm_compat import OLDER_CPU, parse_target
from foretune.dataset.hardware import Hardware
from foretune.dataset.hardware import target_hardware as module
from foretune.dataset.hardware.target_hardware import host_hardware, limit_vectors, target_hardware

pytestmark = pytest.mark.cpu

MACHINE = Hardware(
    name="Example CPU",
    kind="cpu",
    cores=2,
    frequency_ghz=2.0,
    vector_bits=512,
    l1_bytes=2**15,
    l2_bytes=2**20,
    l3_bytes=2**25,
    peak_gflops=256.0,
    bandwidth_gbs=20.0,
    details={"vendor": "GenuineIntel", "family": "6", "instruction_sets": ["avx2", "fma", "avx512f"]},
)
TRIPLE = "x86_64-unknown-linux-gnu"


@pytest.mark.parametrize(
    ("cpu", "bits", "fused"),
    [
        ("x86-64", 128, False),
        ("x86-64-v2", 128, False),
        ("sandybridge", 256, False),
        ("x86-64-v3", 256, True),
        ("znver3", 256, True),
        ("x86-64-v4", 512, True),
        ("rocketlake", 512, True),
    ],
)
def test_the_vectors_of_a_target_are_those_of_its_cpu(cpu, bits, fused):
    target = parse_target({"kind": "llvm", "mcpu": cpu, "mtriple": TRIPLE})
    assert (traits(target).vector_bits, traits(target).fuses_multiply_add) == (bits, fused)


def test_attributes_take_vectors_away():
    target = parse_target({"kind": "llvm", "mcpu": "x86-64-v4", "mattr": ["-avx512f"], "mtriple": TRIPLE})
    assert (traits(target).vector_bits, traits(target).fuses_multiply_add) == (256, True)


def test_other_architectures_are_not_limited():
    target = parse_target({"kind": "llvm", "mcpu": "cortex-a72", "mtriple": "aarch64-linux-gnu"})
    assert limit_vectors(MACHINE, traits(target).vector_bits, traits(target).fuses_multiply_add) is MACHINE


@pytest.mark.parametrize(
    ("bits", "fused", "peak_gflops"),
    [(256, True, 128.0), (256, False, 64.0), (128, False, 32.0), (512, False, 128.0)],
)
def test_the_peak_falls_with_width_and_fusion(bits, fused, peak_gflops):
    limited = limit_vectors(MACHINE, bits, fused)
    assert (limited.vector_bits, limited.peak_gflops) == (bits, peak_gflops)
    assert limited.details["machine_peak_gflops"] == 256.0
    assert limited.details["machine_vector_bits"] == 512
    assert (limited.bandwidth_gbs, limited.cores) == (20.0, 2)


def test_units_that_halve_wide_vectors_lose_nothing_by_code_of_their_width():
    zen4 = replace(MACHINE, details={**MACHINE.details, "vendor": "AuthenticAMD", "family": "25"})
    assert limit_vectors(zen4, 256, True).peak_gflops == 256.0
    assert limit_vectors(zen4, 256, True).vector_bits == 256


def test_units_that_only_add_keep_the_rate_of_code_without_fusion():
    zen4 = replace(MACHINE, details={**MACHINE.details, "vendor": "AuthenticAMD", "family": "25"})
    assert limit_vectors(zen4, 128, False).peak_gflops == 128.0
    assert limit_vectors(zen4, 128, False).details["fused_multiply_add"] is False


def test_code_that_uses_all_of_the_machine_leaves_its_description():
    assert limit_vectors(MACHINE, 512, True) is MACHINE
    older = replace(MACHINE, vector_bits=256)
    assert limit_vectors(older, 512, True) is older


def test_generations_and_cores_are_devices_of_their_own(monkeypatch):
    monkeypatch.delenv(OLDER_CPU, raising=False)
    monkeypatch.setattr(module, "probe_cpu", lambda cores, measured: replace(MACHINE, cores=cores))
    devices = [
        target_hardware(parse_target({"kind": "llvm", "mcpu": cpu, "num-cores": cores, "mtriple": TRIPLE}))
        for cpu in ("x86-64-v2", "x86-64-v3", "x86-64-v4")
        for cores in (1, 2)
    ]
    assert len({device.hardware_id for device in devices}) == 6
    assert len({device.features().tobytes() for device in devices}) == 6
    assert {device.cores for device in devices} == {1, 2}


def test_an_older_cpu_is_a_device_of_its_own(monkeypatch):
    sets = ["sse4_2", "avx2", "fma", "avx512f", "avx512_bf16"]
    machine = replace(MACHINE, details={**MACHINE.details, "instruction_sets": sets})
    monkeypatch.setattr(module, "probe_cpu", lambda cores, measured: replace(machine, cores=cores))
    monkeypatch.setenv(OLDER_CPU, "")
    assert host_hardware(2) == machine
    monkeypatch.setenv(OLDER_CPU, "haswell")
    older = host_hardware(2)
    assert older.name == f"{machine.name} as haswell"
    assert older.hardware_id != machine.hardware_id
    assert (older.vector_bits, older.peak_gflops) == (256, 128.0)
    assert older.details["instruction_sets"] == ["sse4_2", "avx2", "fma"]
    target = parse_target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2, "mtriple": TRIPLE})
    assert target_hardware(target) == older
