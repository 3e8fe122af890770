"""The table of the existing datasets."""

from __future__ import annotations

from support.paths import ROOT
from support.small_datasets import small_dataset

from benchmarks.tables import records
from benchmarks.tables.reading import Results


def test_datasets_that_are_missing_have_no_row(tmp_path, monkeypatch):
    small_dataset(ROOT / "data" / "networks", tmp_path / "dense", tasks=2, records=3)
    monkeypatch.setattr(records, "DATA", tmp_path)
    table = records.records(Results(tmp_path))
    (row,) = [line for line in table.splitlines() if line.startswith("| `data/")]
    assert row.startswith("| `data/dense` | many programs") and "| 2 | 6 of 6 |" in row
    assert "6 valid records of 2 tasks in all" in table


def test_every_dataset_of_the_repository_has_words():
    folders = {path.parent.name for path in (ROOT / "data").glob("*/records-*.parquet")}
    assert folders <= set(records.DATASETS)
