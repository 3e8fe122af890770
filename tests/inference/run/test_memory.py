"""The memory that a network needs, and its refusal before the search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from foretune.inference.run import memory
from foretune.inference.run.config import TuneConfig
from foretune.inference.run.memory import MemoryLimitError, check_memory, need_of

GB = 10**9


def config(**changes: Any) -> TuneConfig:
    return TuneConfig(network="net", output=Path("out"), database=Path("db"), workers=2, **changes)


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(memory, "available_cores", lambda: 2)
    monkeypatch.setattr(memory, "resident_bytes", lambda: GB)

    def have(gigabytes: float | None) -> None:
        amount = None if gigabytes is None else int(gigabytes * GB)
        monkeypatch.setattr(memory, "available_bytes", lambda: amount)

    return have


def test_the_need_by_hand(room: Any) -> None:
    """One gigabyte of weights, 0.1 of intermediate results, four processes."""
    need = need_of(config(rivals=["eager", "openvino"]), GB, GB // 10)
    assert need.search_bytes == pytest.approx(0.5e9 + 4.5e9 + 4 * 0.25e9)
    assert need.check_bytes == pytest.approx(0.5e9 + 8.2e9)
    assert need.timing_bytes == pytest.approx(0.5e9 + 6.2e9 + 0.25e9 + 1.5e9 + 0.1e9)
    assert need.rival_bytes == pytest.approx(0.3e9 + 1.5e9 + 0.1e9 + 0.13e9 + 1.9e9 + 0.1e9)
    assert need.bytes == need.timing_bytes + need.rival_bytes
    alone = need_of(config(rivals=["onnxruntime"]), GB)
    assert alone.rival_bytes == pytest.approx(0.35e9 + 3e9)  # the export needs more than the engine
    assert need_of(config(require_database=True), GB).processes == 0


def test_what_does_not_fit_is_refused_with_the_parts_and_a_remedy(room: Any) -> None:
    room(9)  # and 1 GB of this process
    with pytest.raises(MemoryLimitError) as raised:
        check_memory(config(rivals=["eager"]), "big", GB, GB // 10)
    assert str(raised.value) == (
        "network=big: needs about 10.4 GB of memory (weights 1.0 GB, intermediate results 0.1 GB, copies to "
        "search, compile and check 8.7 GB, rivals 1.9 GB), and 10.0 GB are available here; leave the rivals "
        "out with rivals=[], free some, use a machine with more, or try it with check_memory=false"
    )
    check_memory(config(rivals=[]), "big", GB, GB // 10)
    check_memory(config(rivals=["eager"], check_memory=False), "big", GB, GB // 10)
    room(2)
    with pytest.raises(MemoryLimitError, match=r"2\.\d GB|3\.0 GB are available here; free some"):
        check_memory(config(rivals=[]), "big", GB)


def test_a_system_that_tells_nothing_refuses_nothing(room: Any) -> None:
    room(None)
    check_memory(config(), "big", 1000 * GB)
