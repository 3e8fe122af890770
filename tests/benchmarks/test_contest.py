"""Networks tuned by several searches in turns, and timed side by side."""

from __future__ import annotations

import pytest

from benchmarks.networks import contest


def test_each_search_tunes_the_network_and_what_they_exported_is_timed(monkeypatch, tmp_path):
    tuned = []

    def tune(checkout, network, seed, overrides, *, export, timed):
        assert not timed
        export.write_text("library")
        tuned.append((seed, tuple(overrides), export.name))
        stage_s = {"start and imports": 2.0, "network to tasks": 3.0, "search and measure": 1.0}
        return {"seed": seed, "stage_s": stage_s}

    def side_by_side(network, libraries):
        assert all(path.exists() for path in libraries.values())
        return dict.fromkeys(libraries, 0.5)

    monkeypatch.setattr(contest, "tune", tune)
    monkeypatch.setattr(contest, "side_by_side", side_by_side)
    searches = {"one": (), "the, other": ("search.rounds=1",)}
    for seed in (0, 1):
        run = contest.one_of_each("net", seed, tmp_path / "runs", searches, ["top_k=2"])
        assert run["side_by_side_s"] == {"one": 0.5, "the, other": 0.5}
        assert run["the, other"]["search_s"] == 1.0
    one, other = (*contest.ALONE, "top_k=2"), (*contest.ALONE, "search.rounds=1", "top_k=2")
    assert tuned == [
        (0, one, "net-0-one.so"),
        (0, other, "net-0-the-other.so"),
        (1, other, "net-1-the-other.so"),
        (1, one, "net-1-one.so"),
    ]
    assert list((tmp_path / "runs").iterdir()) == []
    for start, seconds in ((False, "0.8"), (True, "5.8")):
        tuned.clear()
        budgets = {"the, other": contest.Budget("one", 0.75, start=start)}
        contest.one_of_each("net", 1, tmp_path / "runs", searches, [], budgets)
        assert tuned == [
            (1, contest.ALONE, "net-1-one.so"),
            (1, (*contest.ALONE, "search.rounds=1", f"budget_s={seconds}"), "net-1-the-other.so"),
        ]


def test_stock_tunes_the_network_by_so_many_programs_a_task(monkeypatch, tmp_path):
    def tune(checkout, network, seed, overrides, *, export, timed):
        return {"seed": seed, "stage_s": {"search and measure": 1.0}}

    def tune_by_stock(network, seed, trials, library):
        return {"seed": seed, "search_s": 60.0, "measured": trials, "library": library.name}

    monkeypatch.setattr(contest, "tune", tune)
    monkeypatch.setattr(contest, "tune_by_stock", tune_by_stock)
    monkeypatch.setattr(contest, "side_by_side", lambda network, libraries: dict.fromkeys(libraries, 0.5))
    searches = {"default": (), "stock": (contest.STOCK, "64")}
    run = contest.one_of_each("net", 0, tmp_path, searches, ["top_k=2"])
    assert run["default"]["search_s"] == 1.0 and run["side_by_side_s"] == {"default": 0.5, "stock": 0.5}
    assert run["stock"] == {"seed": 0, "search_s": 60.0, "measured": 64, "library": "net-0-stock.so"}


def test_an_interrupted_contest_goes_on_with_the_searches_that_are_left(monkeypatch, tmp_path):
    tuned = []

    def tune(checkout, network, seed, overrides, *, export, timed):
        tuned.append(export.name)
        if len(tuned) == 2:
            raise KeyboardInterrupt
        export.write_text("library")
        return {"seed": seed, "stage_s": {"search and measure": float(len(tuned))}}

    monkeypatch.setattr(contest, "tune", tune)
    monkeypatch.setattr(contest, "side_by_side", lambda network, libraries: dict.fromkeys(libraries, 0.5))
    searches = {"one": (), "other": ("search.rounds=1",)}
    with pytest.raises(KeyboardInterrupt):
        contest.one_of_each("net", 0, tmp_path, searches, [])
    run = contest.one_of_each("net", 0, tmp_path, searches, [])
    assert tuned == ["net-0-one.so", "net-0-other.so", "net-0-other.so"]
    assert [run[name]["search_s"] for name in searches] == [1.0, 3.0]
    assert list(tmp_path.iterdir()) == []
    # What is done counts neither without its library nor with other overrides.
    for lost, overrides in ((True, []), (False, ["top_k=2"])):
        tuned.clear()
        with pytest.raises(KeyboardInterrupt):
            contest.one_of_each("net", 0, tmp_path, searches, [])
        if lost:
            (tmp_path / "net-0-one.so").unlink()
        contest.one_of_each("net", 0, tmp_path, searches, overrides)
        assert tuned == ["net-0-one.so", "net-0-other.so"] * 2
