"""Memory that the machine and its control groups leave, and the peak of a tree of processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from foretune.compiler.host import memory
from foretune.compiler.host.memory import PeakMemory, available_bytes, resident_bytes

GIB = 1 << 30


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 8 GiB available, and no control group yet."""
    monkeypatch.setattr(memory, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "_CGROUPS", tmp_path / "cgroup")
    write(tmp_path / "proc/meminfo", f"MemTotal: 99 kB\nMemAvailable:  {8 << 20} kB\nSwapFree: 5 kB")
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def group(folder: Path, limit: str, usage: int, inactive: int = 0) -> None:
    write(folder / "memory.max", limit)
    write(folder / "memory.current", str(usage))
    write(folder / "memory.stat", f"anon 5\ninactive_file {inactive}")


def test_without_a_control_group_the_machine_decides(system: Path) -> None:
    assert available_bytes() == 8 * GIB
    write(system / "proc/self/cgroup", "0::/user")
    group(system / "cgroup/user", "max", GIB)
    assert available_bytes() == 8 * GIB


def test_the_narrowest_control_group_decides(system: Path) -> None:
    """Cached files of the group are given up, so they count as available."""
    write(system / "proc/self/cgroup", "0::/user/job")
    group(system / "cgroup/user/job", str(6 * GIB), 2 * GIB, GIB)
    assert available_bytes() == 5 * GIB
    group(system / "cgroup/user", str(4 * GIB), 3 * GIB)
    assert available_bytes() == GIB
    group(system / "cgroup/user", str(4 * GIB), 5 * GIB)
    assert available_bytes() == 0


def test_a_container_finds_its_group_at_the_root(system: Path) -> None:
    write(system / "proc/self/cgroup", "0::/docker/0123")
    group(system / "cgroup", str(2 * GIB), GIB)
    assert available_bytes() == GIB


def test_groups_of_version_1_are_read(system: Path) -> None:
    write(system / "proc/self/cgroup", "7:cpu,cpuacct:/a\n5:memory:/job\n1:name=systemd:/b")
    folder = system / "cgroup/memory/job"
    write(folder / "memory.limit_in_bytes", str(3 * GIB))
    write(folder / "memory.usage_in_bytes", str(2 * GIB))
    write(folder / "memory.stat", f"inactive_file 7\ntotal_inactive_file {GIB // 2}")
    assert available_bytes() == 3 * GIB // 2


def test_a_silent_system_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_PROC", "_CGROUPS"):
        monkeypatch.setattr(memory, name, tmp_path)
    assert available_bytes() is None and resident_bytes() == 0
    assert PeakMemory().stop() is None


def test_this_machine_has_memory() -> None:
    assert (available_bytes() or 0) > 1 << 20 and resident_bytes() > 1 << 20


def test_a_process_that_ends_while_it_is_looked_at_does_not_disturb(
    system: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel refuses to list the threads of a process that ended after it was found."""
    own = system / "proc" / str(os.getpid())
    write(own / "statm", "9 8 3")
    write(own / "task/1/children", "41 42")
    write(system / "proc/42/statm", "9 5 1")
    (system / "proc/42/task").mkdir()

    def listed(folder: Path) -> list[Path]:
        if folder.parent.name == "41":
            raise ProcessLookupError(3, "No such process")
        return [Path(entry.path) for entry in os.scandir(folder)]

    monkeypatch.setattr(Path, "iterdir", listed)
    peak = [0]
    memory.look(peak)
    assert peak == [(8 - 3 + 5 - 1 + 3) * memory._PAGE_BYTES]


def test_the_peak_has_the_memory_of_children_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "PERIOD_S", 0.01)
    peak = PeakMemory()
    before = peak.peak_bytes
    script = "import time; x = bytearray(b'x') * (200 << 20); print(flush=True); time.sleep(0.2)"
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    found = peak.stop()
    assert before is not None and found is not None
    assert 200 << 20 <= found - before < 300 << 20
