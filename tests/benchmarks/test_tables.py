"""Declared tables, with rows that are worked by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from benchmarks.tables import TABLES
from benchmarks.tables.declare import Column, Table, cells_of, declared, names, unfold
from benchmarks.tables.reading import Results, short_commit

ROWS = pd.DataFrame(
    {
        "network": ["resnet18", "resnet18", "vgg16"],
        "rival": ["eager", "openvino", "eager"],
        "latency": [0.5, 2.0, 4.0],
        "part.seconds": [2.0, None, 90.0],
    }
)


def put(folder: Path, name: str, result: Any, **manifest: Any) -> None:
    path = folder / name
    path.mkdir(parents=True)
    known = {"machine": "zen4", "variant": "", "commit": "a" * 40, "reconstructed": False, "notes": ""}
    known |= {"started_at": "2026-11-29T10:00:00+00:00", **manifest}
    (path / "result.json").write_text(json.dumps(result))
    (path / "manifest.json").write_text(json.dumps(known))


def column(text: str, *rows: int) -> str:
    return Column("head", text).over(ROWS)(list(rows))


def test_a_lead_needs_three_runs_that_agree() -> None:
    def shown_claim(*ratios: float) -> str:
        frame = pd.DataFrame({"network": "a", "seed": range(len(ratios)), "ratio": ratios})
        return Column("head", "ratio | x @ claim").over(frame)(list(range(len(ratios))))

    assert shown_claim(1.5, 1.1, 1.2) == "1.20x (1.10x to 1.50x)"
    assert shown_claim(1.5, 0.9, 1.2) == "~1.20x (0.90x to 1.50x)"
    assert shown_claim(1.5, 1.1) == "~1.30x (1.10x to 1.50x)" and shown_claim(2.0) == "~2.00x"
    assert shown_claim(1.0, 1.0) == "1.00x"  # the reference


def test_a_lead_over_all_networks_counts_the_runs_that_have_them_all() -> None:
    rows = [("a", 0, 2.0), ("b", 0, 8.0), ("a", 1, 3.0), ("b", 1, 3.0), ("a", 2, 9.0)]
    frame = pd.DataFrame(rows, columns=["network", "seed", "ratio"])
    over = Column("head", "{ratio:x@runs} of {ratio@fewest}").over(frame)
    assert over([0, 1, 2, 3, 4]) == "~3.50x (3.00x to 4.00x) of 2"
    # No run has both networks, so their means count as one run.
    assert over([1, 4]) == "~8.49x of 1"


def test_a_path_has_a_row_for_each_item_and_names_keys() -> None:
    value = {"networks": {"a": {"runs": [{"s": 1}, {"s": 2}]}, "b": {"runs": []}}, "layers": [{"s": 3}]}
    assert unfold(value, "networks.{network}.runs[]") == [{"s": 1, "network": "a"}, {"s": 2, "network": "a"}]
    assert unfold(value, "layers[]") == [{"s": 3}]
    assert unfold(value, "nothing[]") == []
    assert unfold({"a": [{"s": 1}], "b": [{"s": 2}]}, "{kind}[]") == [
        {"s": 1, "kind": "a"},
        {"s": 2, "kind": "b"},
    ]


def test_values_are_keys_arithmetic_or_texts() -> None:
    assert column("latency | x", 1) == "2.00x"
    assert column("part.seconds / latency | .1f", 0) == "4.0"
    assert column("1 / latency | x", 0) == "2.00x"
    assert column("{latency:.1f} after {part.seconds:s}", 2) == "4.0 after 1 min 30 s"
    assert column("network", 0) == "ResNet-18"
    assert column("part.seconds | s", 1) == column("unknown", 1) == column("{part.seconds:.0f} us", 1) == "-"
    with pytest.raises(Exception, match="unknown"):
        column("latency / unknown", 0)


def test_groups_have_an_aggregate() -> None:
    assert column("latency | x @ geomean", 0, 1, 2) == "1.59x"
    assert column("latency | x @ spread", 0, 1) == "1.00x (0.50x to 2.00x)"
    assert column("latency | x @ medians", 0, 1, 2) == "2.00x (0.50x to 4.00x)"
    assert column("{latency@sum} of {latency@count}", 0, 1) == "2.5 of 2"
    assert column("network @ unique", 0, 1, 2) == "2"
    # The mean of ResNet-18 is 1; the mean of both networks follows.
    assert column("latency | x @ networks", 0, 1, 2) == "2.00x"
    assert column("latency | x @ network_spread", 0, 1, 2) == "2.00x (1.00x to 4.00x)"
    assert column("part.seconds | s @ median", 0, 1, 2) == "46 s"


def test_a_head_in_braces_has_a_column_for_each_value_in_the_order_of_the_names() -> None:
    cells = cells_of(ROWS, {"network": "network", "{rival}, latency": "latency | .1f"}, ["network"])
    assert list(cells.columns) == ["network", "OpenVINO, latency", "eager, latency"]
    assert cells.to_numpy().tolist() == [["ResNet-18", "2.0", "0.5"], ["VGG-16", "-", "4.0"]]


def table(**changes: Any) -> Table:
    columns = {"layer": "layer", "latency": "latency_s | ms"}
    return Table(
        **{"source": "made", "command": "make it", "rows": "layers[]", "columns": columns, **changes}
    )


def test_a_table_names_date_and_commit(tmp_path: Path) -> None:
    assert table()(Results(tmp_path)) == "Not measured yet: `make it`."
    layers = {"layers": [{"layer": "b", "latency_s": 1e-3}, {"layer": "a", "latency_s": 2e-3}]}
    put(
        tmp_path,
        "made/zen4",
        layers,
        commit=f"{'b' * 40}+changes",
        notes="adds to the runs of commit cccccccc",
    )
    one = table(only={"layer": ["a"]})(Results(tmp_path))
    assert one == (
        "| layer | latency |\n| --- | --- |\n| a | 2.00 ms |\n\n"
        "AMD Zen 4, 2026-11-29, `ccccccc`, `bbbbbbb+changes`."
    )
    put(tmp_path, "made/xeon", layers, machine="xeon-167")
    two = table(sort=["layer"], only={"layer": ["a", "b"]})(Results(tmp_path)).splitlines()
    assert two[0] == "| machine | layer | latency | measured |" and len(two) == 6
    assert two[2].startswith("| AMD Zen 4 | a |")
    assert two[-1] == "| Intel Xeon (model 167) | b | 1.00 ms | 2026-11-29, `aaaaaaa` |"
    each = table(each=True)(Results(tmp_path))
    assert each.count("| layer | latency |") == 2
    pooled = table(pool=True, by=["layer"], columns={"layer": "layer", "runs": "layer @ count"})
    assert "| b | 2 |" in pooled(Results(tmp_path))
    assert "Zen 4, 2026-11-29, `ccccccc`, `bbbbbbb+changes`; Intel" in pooled(Results(tmp_path))


def test_reconstructed_and_superseded_results_are_left_out(tmp_path: Path) -> None:
    put(tmp_path, "made/zen4", {}, reconstructed=True)
    put(tmp_path, "winograd/xeon-167", {})
    put(tmp_path, "winograd/zen4", {}, variant="part")
    results = Results(tmp_path)
    assert results.of("made") == [] and [one.folder.name for one in results.of("winograd")] == ["zen4"]
    assert results.of("winograd/") == [] and len(results.of("winograd/part")) == 1
    assert short_commit(f"{'a' * 40}+changes") == "aaaaaaa+changes"


def test_commits_of_networks_are_those_of_their_runs(tmp_path: Path) -> None:
    networks = {"a": {"commit": "c" * 40}, "b": {"commit": "d" * 40}, "e": {}}
    put(tmp_path, "made/zen4", {"networks": networks}, commit=f"{'d' * 40}+changes")
    (result,) = Results(tmp_path).of("made")
    assert result.commits == ["ccccccc", "ddddddd+changes"]


def test_every_declared_table_has_known_entries() -> None:
    assert len(declared()) > 60 and set(declared()) < set(TABLES)
    assert all(isinstance(of, dict) for of in names().values())
