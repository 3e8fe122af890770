"""Tests of hardware descriptions: probes, named devices, and ids that must stay stable."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from foretune.compiler.hardware import HARDWARE_COLUMNS
from foretune.dataset.hardware import (
    HARDWARE_DIM,
    Hardware,
    UnknownHardwareError,
    cpu,
    cuda,
    forget_probes,
    hardware_names,
    named_hardware,
    probe_cpu,
)
from foretune.dataset.hardware.peaks import best_time_s, matmul_gflops, undisturbed_best
from support.paths import ROOT

SHIPPED = ROOT / "data" / "cpu" / "hardware-a3b528cb67c5.json"


# -- the description


def test_the_shipped_description_keeps_its_id_and_features():
    hardware = Hardware.from_json(SHIPPED.read_text())
    assert hardware.hardware_id == "a3b528cb67c5"
    numbers = [2, 2.4454279999999997, 256, 2**15, 2**19, 2**25, 188.81483589434237, 33.52948187021758]
    expected = [0.0, *(np.log2(1 + number) for number in numbers)]
    np.testing.assert_array_equal(hardware.features(), np.array(expected, dtype=np.float32))
    assert len(expected) == HARDWARE_DIM == 9
    assert (HARDWARE_COLUMNS["cores"], HARDWARE_COLUMNS["vector_bits"]) == (1, 3)
    assert (HARDWARE_COLUMNS["peak_gflops"], HARDWARE_COLUMNS["bandwidth_gbs"]) == (7, 8)
    assert dict(hardware.details) == {}


def test_details_change_neither_features_nor_id():
    plain = Hardware.from_json(SHIPPED.read_text())
    detailed = replace(plain, details={"memory_bytes": 2**34, "isa": ["avx2"]})
    assert plain.hardware_id == detailed.hardware_id
    np.testing.assert_array_equal(plain.features(), detailed.features())
    assert plain != detailed
    assert Hardware.from_json(detailed.to_json()) == detailed
    assert len({plain, detailed}) == 2


@pytest.mark.parametrize(("name", "value"), [("cores", "4"), ("bandwidth_gbs", None)])
def test_a_description_of_other_types_is_refused(name, value):
    described = json.loads(SHIPPED.read_text()) | {name: value}
    with pytest.raises(ValueError, match=f"{name} is {value!r}; expected a number"):
        Hardware.from_json(json.dumps(described))


# -- names


def test_named_devices_cover_both_kinds():
    kinds = {name: named_hardware(name).kind for name in hardware_names()}
    assert {name for name, kind in kinds.items() if kind == "cuda"} == {
        *("p100", "v100", "rtx-2080-ti", "t4", "a100", "h100", "h200")
    }
    assert {name for name, kind in kinds.items() if kind == "cpu"} == {
        *("xeon-silver-4210", "i9-9900k", "epyc-7452", "epyc-7763", "epyc-9654")
    }


@pytest.mark.parametrize("name", hardware_names())
def test_a_named_device_is_whole_and_says_where_it_comes_from(name):
    hardware = named_hardware(name)
    assert hardware.details["figures"] == "specification"
    assert hardware.details["source"]
    assert np.isfinite(hardware.features()).all()
    positive = [hardware.cores, hardware.frequency_ghz, hardware.vector_bits, hardware.l1_bytes]
    positive += [hardware.l2_bytes, hardware.peak_gflops, hardware.bandwidth_gbs]
    assert min(positive) > 0
    assert (hardware.l3_bytes > 0) == (hardware.kind == "cpu")
    assert Hardware.from_json(hardware.to_json()) == hardware


GPUS = [name for name in hardware_names() if named_hardware(name).kind == "cuda"]
CPUS = [name for name in hardware_names() if named_hardware(name).kind == "cpu"]

# Dense float16 multiply-adds of a multiprocessor's tensor cores in a cycle (white papers).
TENSOR_MULTIPLY_ADDS = {"v100": 512, "rtx-2080-ti": 256, "t4": 512, "a100": 1024, "h100": 2048, "h200": 2048}

# By compute capability: KiB of shared memory of a multiprocessor and of a block; blocks and threads of a
# multiprocessor (CUDA C++ Programming Guide; NVIDIA CCCL's arch_traits.cuh).
LIMITS = {
    "6.0": (64, 48, 32, 2048),
    "7.0": (96, 96, 32, 2048),
    "7.5": (64, 64, 16, 1024),
    "8.0": (164, 163, 32, 2048),
    "9.0": (228, 227, 32, 2048),
}


@pytest.mark.parametrize("name", GPUS)
def test_a_named_gpu_moves_what_its_memory_can(name):
    """Check against two transfers a clock on each line of the bus; vendors round down by a few percent."""
    hardware = named_hardware(name)
    clock_ghz, bits = (hardware.details[field] for field in ("memory_clock_ghz", "memory_bus_bits"))
    assert hardware.bandwidth_gbs == pytest.approx(2 * clock_ghz * bits / 8, rel=0.03)


@pytest.mark.parametrize("name", GPUS)
def test_the_tensor_figure_of_a_named_gpu_is_that_of_its_tensor_cores(name):
    hardware = named_hardware(name)
    if not hardware.details["tensor_core_generation"]:
        assert "tensor_fp16_gflops" not in hardware.details
        return
    rate = 2 * hardware.cores * TENSOR_MULTIPLY_ADDS[name] * hardware.details["tensor_frequency_ghz"]
    assert hardware.details["tensor_fp16_gflops"] == pytest.approx(rate, rel=0.01)


@pytest.mark.parametrize("name", GPUS)
def test_the_limits_of_a_named_gpu_are_those_of_its_compute_capability(name):
    details = named_hardware(name).details
    shared, of_a_block, blocks, threads = LIMITS[details["compute_capability"]]
    assert named_hardware(name).l1_bytes == shared * 1024
    assert details["shared_bytes_per_block_optin"] == of_a_block * 1024
    assert details["blocks_per_multiprocessor"] == blocks
    assert details["threads_per_multiprocessor"] == threads
    assert details["tensor_core_generation"] == cuda._tensor_core_generation(details["compute_capability"])


@pytest.mark.parametrize("name", CPUS)
def test_a_named_cpu_computes_and_moves_what_its_units_can(name):
    hardware = named_hardware(name)
    details = hardware.details
    operations = hardware.cores * details["float32_operations_per_cycle"] * details["base_frequency_ghz"]
    assert hardware.peak_gflops == pytest.approx(operations, rel=0.001)
    transfers = details["memory_channels"] * 8 * details["memory_megatransfers"] / 1e3
    assert hardware.bandwidth_gbs == pytest.approx(transfers, rel=0.03)
    assert hardware.frequency_ghz >= details["base_frequency_ghz"]
    # A multiply-add is two operations on each lane of one or two units.
    units = details["float32_operations_per_cycle"] / (2 * hardware.vector_bits / 32)
    assert units in (1, 2)
    assert details.get("l3_total_bytes", hardware.l3_bytes) % hardware.l3_bytes == 0


@pytest.mark.parametrize("name", GPUS)
def test_the_arithmetic_of_a_named_gpu_is_that_of_its_lanes(name):
    hardware = named_hardware(name)
    lanes = cuda._FLOAT_LANES.get(hardware.details["compute_capability"], 128)
    assert hardware.peak_gflops == pytest.approx(
        2 * hardware.cores * lanes * hardware.frequency_ghz, rel=0.01
    )


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("V100", "v100"),
        ("Tesla V100", "v100"),
        ("nvidia/nvidia-h100", "h100"),
        ("nvidia/geforce-rtx-2080-ti", "rtx-2080-ti"),
        ("Intel Core i9-9900K", "i9-9900k"),
        ("Xeon Silver 4210", "xeon-silver-4210"),
        ("AMD EPYC 7763", "epyc-7763"),
    ],
)
def test_a_name_is_found_as_people_write_it(text, name):
    assert named_hardware(text) == named_hardware(name)


@pytest.mark.parametrize("text", ["v1000", "", "nvidia", "epyc"])
def test_an_unknown_name_lists_the_known_ones(text):
    with pytest.raises(UnknownHardwareError, match=r"use one of a100, epyc-7452.*xeon-silver-4210"):
        named_hardware(text)


# -- the CPU probe


CPU_INFO = """processor	: 0
vendor_id	: GenuineIntel
cpu family	: 6
model		: 143
model name	: Example CPU @ 2.00GHz
stepping	: 8
cpu MHz		: 2000.000
flags		: fpu avx avx2 fma avx512f avx512_vnni amx_tile amx_int8 hypervisor

processor	: 1
model name	: Example CPU @ 2.00GHz
cpu MHz		: 2600.000
"""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


@pytest.fixture
def system(tmp_path, monkeypatch):
    """System files of a CPU with two cache levels as Linux writes them; nothing is measured."""
    write(tmp_path / "cpuinfo", CPU_INFO)
    root = tmp_path / "cpu"
    for index, (level, kind, size, shared) in enumerate(
        [(1, "Instruction", "64K", "0"), (1, "Data", "48K", "0,8"), (3, "Unified", "30M", "0-7,16-23")]
    ):
        folder = root / f"cpu0/cache/index{index}"
        for name, text in (
            ("level", str(level)),
            ("type", kind),
            ("size", size),
            ("shared_cpu_list", shared),
        ):
            write(folder / name, text)
        write(folder / "coherency_line_size", "64")
    write(root / "cpu0/topology/thread_siblings_list", "0,8")
    monkeypatch.setattr(cpu, "_CPU_INFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(cpu, "_SYSTEM", root)
    monkeypatch.setattr(cpu, "_COUNTERS", tmp_path / "devices")
    monkeypatch.setattr(cpu, "_measure", lambda cores: ((100.0 * cores, False), (10.0 * cores, False)))
    monkeypatch.setattr(cpu, "_probed", cpu._probed.__wrapped__)  # other tests have probed this machine
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_a_cpu_is_described_as_the_system_tells(system):
    hardware = probe_cpu(4)
    assert (hardware.name, hardware.kind, hardware.cores) == ("Example CPU @ 2.00GHz", "cpu", 4)
    assert cpu.cpu_name() == hardware.name
    assert hardware.frequency_ghz == 2.6  # the highest of all cores
    assert hardware.vector_bits == 512
    assert (hardware.l1_bytes, hardware.l2_bytes, hardware.l3_bytes) == (48 * 1024, 0, 30 * 1024**2)
    assert (hardware.peak_gflops, hardware.bandwidth_gbs) == (400.0, 40.0)
    details = dict(hardware.details)
    assert details.pop("memory_bytes") > 2**20
    details.pop("system_cores", None)
    assert details == {
        "figures": "measured",
        "vendor": "GenuineIntel",
        "family": "6",
        "model": "143",
        "stepping": "8",
        "threads_per_core": 2,
        "threads_per_l3": 16,
        "cache_line_bytes": 64,
        "instruction_sets": ["avx", "avx2", "fma", "avx512f", "avx512_vnni", "amx_tile", "amx_int8"],
        "virtual_machine": True,
        "hardware_counters": False,
    }


def test_a_process_measures_its_cpu_once(system, monkeypatch):
    figures = iter([((100.0, False), (10.0, False)), ((101.0, False), (11.0, False))])
    monkeypatch.setattr(cpu, "_measure", lambda cores: next(figures))
    monkeypatch.setattr(cpu, "_probed", cache(cpu._probed))
    assert probe_cpu(2) == probe_cpu(2, measured=True) == probe_cpu(cores=2)
    assert probe_cpu(2).peak_gflops == 100.0
    assert probe_cpu(1).peak_gflops == 101.0  # other cores, other figures


def test_later_processes_read_undisturbed_peaks_until_they_are_forgotten(system, monkeypatch):
    figures = iter([((1.0, True), (2.0, False)), *(((rate, False), (2.0, False)) for rate in (3.0, 4.0))])
    monkeypatch.setattr(cpu, "_measure", lambda cores: next(figures))
    assert [probe_cpu(2).peak_gflops for _ in range(3)] == [1.0, 3.0, 3.0]
    monkeypatch.setattr(cpu, "_probed", cache(cpu._probed))
    assert probe_cpu(2).peak_gflops == 3.0
    forget_probes()
    assert probe_cpu(2).peak_gflops == 4.0


@pytest.mark.parametrize("disturbed", [(True, False), (False, True), (False, False)])
def test_peaks_that_were_measured_beside_other_work_are_marked(system, monkeypatch, disturbed):
    monkeypatch.setattr(cpu, "_measure", lambda cores: tuple((1.0, one) for one in disturbed))
    found = probe_cpu(2)
    assert found.details.get("peaks_disturbed", False) == any(disturbed)
    assert found.hardware_id == probe_cpu(2, measured=False).hardware_id


def test_the_highest_turbo_is_told_where_the_system_knows_it(system):
    write(system / "cpu/cpu0/cpufreq/cpuinfo_max_freq", "3800000")
    write(system / "cpu/cpu1/cpufreq/cpuinfo_max_freq", "4100000")
    assert probe_cpu(1).frequency_ghz == 4.1


def test_counters_are_seen_where_the_kernel_has_them(system):
    (system / "devices/cpu").mkdir(parents=True)
    assert probe_cpu(1).details["hardware_counters"] is True


def test_what_tells_the_counters_of_a_cpu(system):
    assert cpu.cpu_vendor_and_family() == ("GenuineIntel", 6)
    assert cpu.cache_line_bytes() == 64
    write(system / "cpu/cpu0/cache/index1/coherency_line_size", "128")
    assert cpu.cache_line_bytes() == 128


def test_a_silent_system_is_still_described(system, monkeypatch):
    monkeypatch.setattr(cpu, "_CPU_INFO", system / "nothing")
    monkeypatch.setattr(cpu, "_SYSTEM", system / "nothing")
    assert cpu.cpu_vendor_and_family() == ("", 0)
    assert cpu.cache_line_bytes() == 64
    hardware = probe_cpu(2)
    assert hardware.name
    assert (hardware.frequency_ghz, hardware.l1_bytes, hardware.l3_bytes) == (0.0, 0, 0)
    assert "vendor" not in hardware.details and "threads_per_core" not in hardware.details


def test_this_cpu_is_measured():
    (gflops, _), (bandwidth_gbs, _) = cpu._measure(1)
    assert gflops > 1
    assert bandwidth_gbs > 0.01


# -- the measurement of the ceilings


class Clock:
    """Clock that advances only in `run`, by the given durations."""

    def __init__(self, durations):
        self.now = 0.0
        self.durations = iter(durations)
        self.runs = 0

    def run(self):
        self.runs += 1
        self.now += next(self.durations)

    def __call__(self):
        return self.now


def test_the_shortest_run_counts_whatever_disturbs_the_others():
    clock = Clock([0.013, 0.031, 0.010, 0.012, 0.045, *[0.011] * 6])
    assert best_time_s(clock.run, clock) == pytest.approx(0.010)
    assert clock.runs == 3 + 8  # eight runs after the shortest


def test_measuring_goes_on_while_it_gets_better():
    clock = Clock(0.05 * 0.97**n for n in count())
    assert best_time_s(clock.run, clock) == pytest.approx(0.05 * 0.97 ** (clock.runs - 1))
    assert 1.5 <= clock.now < 1.55


def test_a_slow_device_is_measured_at_least_once():
    clock = Clock([20.0])
    assert best_time_s(clock.run, clock) == 20.0


# -- the CUDA probe


class BusyMeter:
    """Meter of a machine of two cores on which other processes use `others` cores, and threads wait."""

    def __init__(self, *others, waiting=0.0):
        self.others, self.waiting = iter(others), waiting
        self.now, self.busy, self.reads = 0.0, 0.0, 0

    def read(self):
        if self.reads % 2:  # the end of a measurement of a second
            self.now += 1.0
            self.busy += 2.0 + next(self.others)
        self.reads += 1
        return self.now, 2 * self.now, self.busy, self.waiting * self.now


def rates(*values):
    script = iter(values)
    return lambda: next(script)


def test_a_quiet_machine_is_measured_once():
    assert undisturbed_best(rates(50.0), BusyMeter(0.1)) == (50.0, False)


def test_a_disturbed_peak_is_measured_again_and_the_best_counts():
    assert undisturbed_best(rates(12.8, 30.0, 59.5), BusyMeter(1.0, 0.5, 0.0)) == (59.5, False)
    assert undisturbed_best(rates(12.8, 59.5, 30.0), BusyMeter(1.0, 1.0, 0.0)) == (59.5, False)


def test_a_machine_that_is_never_quiet_is_told():
    assert undisturbed_best(rates(12.8, 30.0, 20.0, 25.0), BusyMeter(*[1.0] * 4)) == (30.0, True)
    assert undisturbed_best(rates(*[5.0] * 4), BusyMeter(*[0.0] * 4, waiting=0.5)) == (5.0, True)


def test_another_busy_process_is_seen():
    """Two of them on each core take half of a product's time; the other half passes in waiting."""
    script = "import time\nend = time.time() + 60\nwhile time.time() < end: pass"
    busy = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        _, disturbed = undisturbed_best(lambda: matmul_gflops(torch.device("cpu"), 256))
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert disturbed
