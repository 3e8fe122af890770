"""CPU seconds of conversions in two checkouts."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import conversion as subject
from benchmarks.checkouts import ROOT


def test_checkouts_take_turns_and_medians_are_compared(monkeypatch, tmp_path: Path) -> None:
    cpu_s = {ROOT: iter([2.0, 9.0, 3.0]), tmp_path: iter([4.0, 4.0, 1.0])}
    order = []

    def converted(checkout, network):
        order.append(checkout)
        return {"cpu_s": next(cpu_s[checkout])}

    monkeypatch.setattr(subject, "converted", converted)
    monkeypatch.setattr("sys.argv", ["conversion", "--against", str(tmp_path), "--networks", "net"])
    monkeypatch.setattr(subject, "write_result", lambda name, result, *rest, **also: written.update(result))
    written: dict[str, object] = {}
    subject.main()
    assert order == [tmp_path, ROOT, ROOT, tmp_path, tmp_path, ROOT]
    assert written["cpu_s_ratio"] == pytest.approx(3.0 / 4.0)
