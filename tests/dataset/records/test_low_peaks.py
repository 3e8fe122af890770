"""Devices whose peak is below the rate of a program are named in the datasheet and at the reading."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from foretune.compiler.hardware import FROM_PROGRAM
from foretune.dataset import generate
from foretune.dataset.features.dataset import _learned_records
from foretune.dataset.records.datasheet.content import limits
from foretune.dataset.records.datasheet.overview import read_overview
from foretune.dataset.records.store import RecordStore
from foretune.terminal import CommandConsole
from support.records import HARDWARE, record, task_row

FLOAT32 = replace(task_row("f"), settings='{"dtype": "float32"}')
INT8 = replace(task_row("i"), settings='{"dtype": "int8"}')


def store_of(folder: Path, peak_gflops: float, **details: object) -> RecordStore:
    """Programs of 1 MFLOP: of 50 us in float32 (20 GFLOP/s), and of 1 us in int8 (1,000)."""
    store = RecordStore(folder)
    with store.writing():
        store.put_hardware(replace(HARDWARE, peak_gflops=peak_gflops, details=details))
        store.append_tasks([FLOAT32, INT8])
        store.append_records([record(0, (5e-5,), task="f"), record(1, (1e-6,), task="i")])
    return store


@pytest.mark.parametrize(
    ("peak_gflops", "details", "told"),
    [
        (12.8, {}, "peak of Some CPU .* is 12.8 GFLOP/s, and a measured program reaches 20.0 GFLOP/s"),
        (19.0, {}, None),  # a library is some percent slower than the fastest program
        (59.5, {}, None),
        (20.0, {FROM_PROGRAM: True}, "20.0 GFLOP/s, is the rate of its fastest program"),
        (59.5, {"peaks_disturbed": True}, "59.5 GFLOP/s, was measured beside other work"),
    ],
)
def test_a_low_peak_is_told_in_the_datasheet_and_at_the_reading(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    peak_gflops: float,
    details: dict[str, object],
    told: str | None,
) -> None:
    store = store_of(tmp_path, peak_gflops, **details)
    with caplog.at_level(logging.WARNING):
        _learned_records(store)
    sheet = "\n".join(limits(read_overview(store)))
    for text in (caplog.text, sheet):
        assert ("foretune generate on the quiet machine" in text) == (told is not None)
        if told is not None:
            assert re.search(told, text)


@pytest.mark.parametrize(
    ("again_gflops", "peak_gflops", "from_program", "told"),
    [
        (13.5, 20.0, True, "is the rate of its fastest program"),  # still impossible
        (59.5, 59.5, False, ""),  # the machine is quiet now
    ],
)
def test_an_impossible_peak_is_measured_again_and_never_stays(
    tmp_path: Path, capsys, again_gflops: float, peak_gflops: float, from_program: bool, told: str
) -> None:
    store = store_of(tmp_path, 12.8)
    again = replace(HARDWARE, peak_gflops=again_gflops, details={})
    testbed = SimpleNamespace(hardware=HARDWARE, executor=SimpleNamespace(hardware=lambda: again))
    with store.writing():
        generate._check_peaks(store, testbed, CommandConsole())
    (kept,) = RecordStore(tmp_path).hardware().values()
    assert (kept.peak_gflops, kept.details.get(FROM_PROGRAM, False)) == (peak_gflops, from_program)
    printed = " ".join(capsys.readouterr().out.split())
    assert told in printed and ("may be too low" in printed) == from_program


def test_a_peak_that_a_program_gave_is_marked_until_a_measurement_gives_more(tmp_path: Path) -> None:
    store = store_of(tmp_path, 20.0, **{FROM_PROGRAM: True})
    for measured, kept, marked in ((15.0, 20.0, True), (30.0, 30.0, False)):
        with store.writing():
            store.put_hardware(replace(HARDWARE, peak_gflops=measured, bandwidth_gbs=measured * 10))
        (device,) = RecordStore(tmp_path).hardware().values()
        assert (device.peak_gflops, device.details.get(FROM_PROGRAM, False)) == (kept, marked)
