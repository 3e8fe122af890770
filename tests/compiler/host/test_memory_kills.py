"""Counts of processes that the kernel killed for lack of memory."""

from __future__ import annotations

import pytest
from foretune.compiler.host import memory, memory_kills
from foretune.compiler.host.memory_kills import out_of_memory_kills, tells_of_no_memory


@pytest.mark.parametrize(
    ("groups", "file"),
    [("0::/mine\n", "mine/memory.events"), ("4:memory:/mine\n", "memory/mine/memory.oom_control")],
)
def test_kills_are_counted_in_the_group_and_on_the_machine(tmp_path, monkeypatch, groups, file):
    monkeypatch.setattr(memory_kills, "_MACHINE", tmp_path / "vmstat")
    monkeypatch.setattr(memory, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "_CGROUPS", tmp_path)
    assert out_of_memory_kills() is None
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "cgroup").write_text(groups)
    (tmp_path / "vmstat").write_text("nr_free_pages 12\noom_kill 2\n")
    assert out_of_memory_kills() == 2
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text("oom 7\noom_kill 3\n")
    assert out_of_memory_kills() == 5


@pytest.mark.parametrize(
    ("message", "told"),
    [
        *(("std::bad_alloc", True), ("OSError: [Errno 12] Cannot allocate memory", True)),
        *(("MemoryError", True), ("CUDA: out of memory", False), ("killed by signal 11", False), ("", False)),
    ],
)
def test_only_this_machines_memory_is_meant(message, told):
    assert tells_of_no_memory(message) == told
