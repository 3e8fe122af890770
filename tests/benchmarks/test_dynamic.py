"""The benchmark of dynamic shapes: sizes, padding, ratios, progress, and a dry run from end to end."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foretune.inference.deploy import load as loading
from foretune.inference.deploy.rivals.base import NetworkSource
from foretune.inference.dynamic.comparison import Entrant
from numpy.typing import NDArray
from tvm.support.cc import get_cc

from benchmarks import common
from benchmarks.dynamic import __main__ as subject
from benchmarks.dynamic.buckets import Buckets, Library, Signature, bucket_of, smallest_for, write_buckets
from benchmarks.dynamic.contest import rows_of
from benchmarks.dynamic.engines import BUCKETS, ENGINES, FIXED, FORETUNE, SEARCHED
from benchmarks.dynamic.libraries import BuildError, Built, Libraries, library_name, wanted_libraries
from benchmarks.dynamic.networks import SUBJECTS, as_word, dry_subject, grid
from benchmarks.dynamic.page import axis_of, write_page
from benchmarks.dynamic.progress import LIBRARY, SIZE, OutOfTime, Progress
from benchmarks.dynamic.summary import network_summary, over_fixed, regrets, summary
from benchmarks.tables import TABLES
from benchmarks.tables.reading import Results


@pytest.mark.parametrize("name", SUBJECTS)
def test_sizes_lie_in_their_ranges(name: str) -> None:
    one = SUBJECTS[name]()
    symbols = one.dynamic.symbols
    assert len({tuple(sizes.items()) for sizes in one.sizes}) == len(one.sizes) >= 8
    for sizes in one.sizes:
        assert list(sizes) == list(symbols) and all(
            symbols[key].contains(size) for key, size in sizes.items()
        )
    assert len(one.references) == 6 and all(sizes in one.sizes for sizes in one.references)
    if name in ("minilm", "bert_base"):
        assert len(one.sizes) >= 24 and {1, 7, 131, 257, 509} < {sizes["n"] for sizes in one.sizes}
        (tokens, mask) = one.draw({"b": 2, "n": 5})
        assert tokens.shape == (2, 5) and (mask == 1).all()


def test_options_are_words_of_hydra() -> None:
    value = [{"shape": ["b", "8*n", 3], "dtype": "int64"}, [1, True]]
    assert as_word(value) == '[{shape:["b","8*n",3],dtype:"int64"},[1,true]]'
    one = dry_subject()
    assert one.words() == [
        *("network=benchmarks.dynamic.modules:tiny", 'inputs=[["b",16]]', "seed=0", "dims.b=1:8"),
    ]
    assert "inputs=[{shape:[3,16]}]" in one.words({"b": 3})


def test_fewer_sizes_are_half_references() -> None:
    one = SUBJECTS["resnet50"]()
    assert subject.chosen_sizes(one, None) == list(one.sizes) == subject.chosen_sizes(one, 99)
    # References are 1, 3, 4, 7, 8, 13, and the others 2, 5, 11, 16.
    assert [sizes["b"] for sizes in subject.chosen_sizes(one, 4)] == [1, 2, 13, 16]
    assert subject.chosen_sizes(one, 1) == [{"b": 13}]


def test_a_bucket_is_the_next_power_of_two() -> None:
    found = [bucket_of({"b": size}, {"b": 100})["b"] for size in (1, 2, 3, 64, 65, 100)]
    assert found == [1, 2, 4, 64, 100, 100]
    small, wide, tall = (Library({"b": b, "n": n}, "") for b, n in ((2, 4), (2, 16), (8, 8)))
    assert smallest_for({"b": 2, "n": 5}, [wide, tall, small]) is wide
    with pytest.raises(ValueError, match="no library for"):
        smallest_for({"b": 9, "n": 1}, [small, wide, tall])


def test_libraries_are_those_that_the_sizes_need() -> None:
    one = dry_subject()
    assert wanted_libraries(BUCKETS, one, grid(b=[3, 4, 5, 8])) == [{"b": 4}, {"b": 8}]
    assert wanted_libraries(FIXED, one, one.sizes) == [{"b": 8}] == wanted_libraries(SEARCHED, one, one.sizes)
    assert wanted_libraries(BUCKETS, SUBJECTS["segmentation"](), [{"h": 1, "w": 1}]) == []
    assert (
        library_name(BUCKETS, {"b": 8}) == library_name(FIXED, {"b": 8}) != library_name(SEARCHED, {"b": 8})
    )
    # One for the range, and b=8, which buckets and exact sizes share; two sizes, and memory at the largest.
    settings = subject.settings_of(subject.arguments_of(["--dry"]), one)
    assert subject.steps_of(one, settings) == {LIBRARY: 2, SIZE: 3}
    assert subject.steps_of(one, replace(settings, engines=[FORETUNE, BUCKETS])) == {LIBRARY: 2, SIZE: 2}
    assert subject.steps_of(one, replace(settings, engines=[FORETUNE])) == {LIBRARY: 1, SIZE: 2}


def test_padding_adds_zeros_and_outputs_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[NDArray[Any]] = []

    def loaded(path: Path, threads: int) -> Callable[..., NDArray[Any]]:
        def network(array: NDArray[Any]) -> NDArray[Any]:
            assert path.name == f"{array.shape[0]}.so"
            seen.append(array.copy())
            return 2 * array

        return network

    monkeypatch.setattr(loading, "load", loaded)
    signature = Signature([["b", 3]], [["b", 3]])
    write_buckets(tmp_path / "x.json", signature, [Library({"b": b}, f"{b}.so") for b in (2, 4)])
    bind = Buckets(1).load(NetworkSource((), path=tmp_path / "x.json"))
    rows = np.arange(9, dtype=np.float32).reshape(3, 3)
    for _ in range(2):
        (found,) = bind((rows,))()
        assert np.array_equal(found, 2 * rows)
    assert np.array_equal(seen[0], np.concatenate([rows, np.zeros((1, 3))])) and len(seen) == 2
    (found,) = bind((rows[:2],))()
    assert np.array_equal(seen[2], rows[:2]) and np.array_equal(found, 2 * rows[:2])


def row(engine: str, b: int, latency_s: float | None, **changes: Any) -> dict[str, Any]:
    """A row of the network `a`, whose other fields are unknown."""
    unknown = dict.fromkeys(("first_call_s", "recompilations", "ready_s", "library_mb", "peak_mb"))
    values = {"network": "a", "engine": engine, "size": f"b={b}", "sizes": {"b": b}, "latency_s": latency_s}
    return {**unknown, **values, "disturbed": False, "error": "", **changes}


ROWS = [
    *(row(FORETUNE, 1, 1.0), row("openvino", 1, 1.5), row("onnxruntime", 1, 1.2), row(BUCKETS, 1, 1.0)),
    *(row(FIXED, 1, 0.8), row(SEARCHED, 1, 0.5)),
    *(row(FORETUNE, 2, 2.0), row("openvino", 2, 2.7), row("onnxruntime", 2, 9.0, error="other outputs")),
    *(row(BUCKETS, 2, 8.0), row(FIXED, 2, 1.6)),
    *(row(FORETUNE, 3, 3.0), row("openvino", 3, 1.0, disturbed=True)),
]


def test_ratios_are_of_rivals_that_ran_undisturbed() -> None:
    """Best rivals take 1.2 of 1 and 2.7 of 2: 1.2 and 1.35, with the geometric mean sqrt(1.62)."""
    found = network_summary(ROWS)
    assert found["over_best_rival"] == pytest.approx(1.62**0.5)
    assert found["least_over_best_rival"] == pytest.approx(1.2)
    assert (found["over_buckets"], found["least_over_buckets"]) == (pytest.approx(2.0), pytest.approx(1.0))
    # The fastest oracle takes 0.5 of 1 and 1.6 of 2.
    assert regrets(ROWS) == pytest.approx({"b=1": 1.0, "b=2": 0.25})
    assert (found["mean_regret"], found["worst_regret"]) == (pytest.approx(0.625), pytest.approx(1.0))
    assert (found["fixed_regret"], found["fixed_searched_regret"]) == (
        pytest.approx(0.25),
        pytest.approx(1.0),
    )
    assert (found["sizes"], found["disturbed"]) == (3, 1)


def test_the_summary_is_of_networks_with_a_library() -> None:
    """Ratios of 1.62 ** 0.5 and 0.5 have the geometric mean 0.81 ** 0.25 in the root: (1.62 / 4) ** 0.25."""
    other = [{**one, "network": "b"} for one in (row(FORETUNE, 1, 2.0), row("openvino", 1, 1.0))]
    none = {**row(FORETUNE, 1, None, error="no conversion"), "network": "c", "size": None, "sizes": None}
    found = summary([*ROWS, *other, none])
    assert (found["networks"], found["without_library"]) == (2, 1)
    assert found["over_best_rival"] == pytest.approx((1.62**0.5 * 0.5) ** 0.5)
    assert found["least_over_best_rival"] == pytest.approx(0.5)
    assert (found["mean_regret"], found["worst_regret"]) == (pytest.approx(0.625), pytest.approx(1.0))
    assert found["oracles"] == [FIXED, SEARCHED]
    assert summary([none])["over_best_rival"] is None


def test_costs_are_over_those_of_a_library_of_one_size() -> None:
    """One library takes 30 s, and libraries of one size 10, 20 and 90 s: 1.5 times their median."""
    facts = {
        "library_s": {FORETUNE: [30.0], FIXED: [90.0, 10.0, 20.0], BUCKETS: [1.0]},
        "largest_peak_mb": {FORETUNE: 600.0, FIXED: 500.0},
    }
    assert over_fixed(ROWS, facts) == {"ready_over_fixed": 1.5, "peak_over_fixed": pytest.approx(1.2)}
    alone = {"library_s": {FORETUNE: [30.0]}, "largest_peak_mb": {FORETUNE: 600.0}}
    assert over_fixed(ROWS, alone) == {"ready_over_fixed": None, "peak_over_fixed": None}


def test_earlier_results_have_the_time_of_all_libraries_of_one_size() -> None:
    """Two libraries take 40 s together, and the one for all sizes 60 s."""
    ready_s = {FORETUNE: 60.0, FIXED: 40.0}
    rows = [{**one, "ready_s": ready_s.get(one["engine"])} for one in ROWS]
    assert over_fixed(rows, {}) == {"ready_over_fixed": 3.0, "peak_over_fixed": None}
    assert over_fixed(ROWS, {}) == {"ready_over_fixed": None, "peak_over_fixed": None}


def test_rows_have_what_holds_for_all_sizes_of_an_engine() -> None:
    def timing(name: str, b: int, latency_s: float | None, **changes: Any) -> dict[str, Any]:
        unknown = {"max_abs_difference": 0.0, "disturbed": False, "error": "", "compilations": None}
        return {"name": name, "sizes": {"b": b}, "latency_s": latency_s, "first_s": 0.1, **unknown, **changes}

    def begun(name: str, peak_mb: float | None, error: str = "") -> dict[str, Any]:
        return {
            **{"name": name, "version": "1", "ready_s": 5.0, "file_mb": 7.0},
            **{"peak_mb": peak_mb, "error": error},
        }

    found = [
        {"timings": [timing("inductor", 1, 0.2, compilations=1)], "starts": [begun("inductor", 10.0)]},
        {
            "timings": [timing("inductor", 2, 0.3, compilations=0)],
            "starts": [begun("inductor", 30.0), begun("openvino", None, "cannot read it")],
        },
    ]
    built = Built([Entrant(FORETUNE, "x:y")], {}, {"tasks": 3, "plain": []}, {BUCKETS: "no padding"})
    first, second, failed, unpadded = rows_of("a", built, found)
    assert (first["size"], first["recompilations"], second["recompilations"]) == ("b=1", 1, 0)
    assert [one["peak_mb"] for one in (first, second)] == [30.0, 30.0] and first["library_mb"] == 7.0
    assert (failed["engine"], failed["size"], failed["error"]) == ("openvino", None, "cannot read it")
    assert (unpadded["engine"], unpadded["error"]) == (BUCKETS, "no padding")
    assert set(failed) == set(first)


class AnyBuilder:
    """Builds any library."""

    def build(self, words: list[str]) -> dict[str, Any]:
        (export,) = (word.partition("=")[2] for word in words if word.startswith("export="))
        Path(export).write_bytes(b"0" * 1_000_000)
        return {"seconds": 2.0, "tasks": 1, "plain": []}


def test_the_largest_sizes_have_a_library_of_their_own(tmp_path: Path) -> None:
    one = replace(dry_subject(), sizes=grid(b=[3, 7]), references=grid(b=[3, 7]))
    libraries = Libraries(one, tmp_path, AnyBuilder(), lambda kind, name, do: do(), None)  # type: ignore[arg-type]
    made = libraries.build([FORETUNE, FIXED], one.sizes)
    own, fixed = made.largest
    assert (own.name, own.sizes, own.path) == (FORETUNE, [{"b": 8}], tmp_path / "foretune.so")
    assert (fixed.name, fixed.sizes) == (FIXED, [{"b": 8}])
    assert fixed.path is not None and "no_measurement-b8.so" in fixed.path.read_text()
    assert made.library_s == {FORETUNE: [2.0], FIXED: [2.0, 2.0]}
    assert [entrant.sizes for entrant in made.entrants] == [None, [{"b": 3}, {"b": 7}]]


class NoBuilder(AnyBuilder):
    """Builds the library of the range, and none of b=8 alone."""

    def build(self, words: list[str]) -> dict[str, Any]:
        if any(word.endswith("b8.so") for word in words):
            raise BuildError("no conversion")
        return super().build(words)


def test_a_library_that_is_not_built_leaves_out_its_sizes(tmp_path: Path) -> None:
    one, steps = replace(dry_subject(), sizes=grid(b=[3, 8])), []

    def step(kind: str, name: str, do: Callable[[], Any]) -> Any:
        steps.append(name)
        return do()

    made = Libraries(one, tmp_path, NoBuilder(), step, None).build(ENGINES, one.sizes)  # type: ignore[arg-type]
    assert [entrant.name for entrant in made.entrants] == [FORETUNE, BUCKETS]
    assert made.entrants[1].sizes == [{"b": 3}] and made.entrants[1].before_s == 2.0
    assert made.library_mb == {FORETUNE: 1.0, BUCKETS: 1.0}
    assert set(made.left_out) == {BUCKETS, FIXED, SEARCHED} and "no conversion" in made.left_out[FIXED]
    assert made.library_s == {FORETUNE: [2.0], BUCKETS: [2.0]} and made.largest == []
    assert steps[:2] == ["foretune", "no_measurement-b4"]


def test_progress_estimates_and_ends(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr("benchmarks.dynamic.progress.time.monotonic", lambda: clock[0])
    progress = Progress({"a": {LIBRARY: 2, SIZE: 1}, "b": {LIBRARY: 1, SIZE: 1}}, minutes=1.0)

    def build() -> str:
        clock[0] += 40.0
        return "built"

    def fail() -> str:
        raise ValueError("no conversion\nat all")

    # Three libraries of 25 s each and two sizes of 12 s, before any has run.
    assert str(progress) == "5 steps, about 1 min 39 s"
    assert progress.step("a", LIBRARY, "x", build, str.upper) == "built"
    # Two libraries of 40 s each are left, and two sizes of 12 s.
    assert progress.left_s == pytest.approx(104.0)
    assert capsys.readouterr().out == "[1 of 5] a, x: BUILT; about 1 min 44 s left\n"
    with pytest.raises(ValueError, match="no conversion"):
        progress.step("a", LIBRARY, "fails", fail, str.upper)
    assert capsys.readouterr().out == "[2 of 5] a, fails: failed: no conversion; about 1 min 04 s left\n"
    progress.finish("a")
    assert progress.left_s == pytest.approx(52.0)
    clock[0] = 61.0
    with pytest.raises(OutOfTime, match="b, y"):
        progress.step("b", SIZE, "y", build, str.upper)


def test_the_axis_is_the_symbol_with_most_sizes() -> None:
    def rows(sizes: list[dict[str, int]]) -> list[dict[str, Any]]:
        return [{"size": str(one), "sizes": one} for one in sizes]

    title, places = axis_of(rows([{"b": 1, "n": 3}, {"b": 1, "n": 5}, {"b": 2, "n": 4}]))
    assert (title, list(places.values())) == ("n, b=1", [3, 5])
    title, places = axis_of(rows([{"h": 2, "w": 3}, {"h": 4, "w": 5}, {"h": 6, "w": 7}]))
    assert (title, list(places.values())) == ("h x w", [6, 20, 42])


def test_a_network_without_a_library_has_a_row_with_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(NoBuilder):
        def __enter__(self) -> Failing:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def build(self, words: list[str]) -> dict[str, Any]:
            raise BuildError("network=tiny: no such operator")

    monkeypatch.setattr("benchmarks.dynamic.contest.Builder", Failing)
    arguments = subject.arguments_of(["--dry", "--runs-in", str(tmp_path)])
    result = subject.merged({}, subject.run(arguments), "abc")
    (only,) = result["rows"]
    assert (only["network"], only["engine"], only["size"]) == ("dry", FORETUNE, None)
    assert only["error"] == "network=tiny: no such operator" == result["networks"]["dry"]["error"]
    write_page({**result, "threads": 2}, tmp_path / "page.html")
    assert "no such operator" in (tmp_path / "page.html").read_text()


def test_tables_show_networks_engines_and_sizes(tmp_path: Path) -> None:
    rows = [{**one, "network": "bert_base"} for one in ROWS]
    failed = {**row(FORETUNE, 1, None, error="no conversion"), "network": "crnn", "size": None, "sizes": None}
    found = {
        "bert_base": {
            "rows": rows,
            "facts": {
                "symbols": {"b": [1, 16]},
                "library_s": {FORETUNE: [3.0], FIXED: [2.0]},
                "error": "",
            },
        },
        "crnn": {"rows": [failed], "facts": {"error": "no conversion"}},
    }
    result = {"threads": 2, **subject.merged({}, found, "0123456789")}
    hardware = {"name": "AMD EPYC", "vector_bits": 256, "details": {"vendor": "AuthenticAMD", "family": "25"}}
    common.write_result("dynamic", result, common.start(), hardware, results=tmp_path)
    networks = TABLES["dynamic-networks"](Results(tmp_path))
    assert "| 1.27x (ONNX Runtime) | 1.20x | 2.00x | 62% | 100% | 1.50x | - |" in networks
    assert "| text line with LSTM | no library | 0 | - | - | - | - | - | - | - | - | - |" in networks
    assert "one library with text line with LSTM (no conversion)" in " ".join(networks.split())
    assert "| b=2 | 2000 ms | 8000 ms | 1600 ms | - | 2700 ms | failed |" in TABLES["dynamic-sizes"](
        Results(tmp_path)
    )
    assert "| one library | 2 |" in TABLES["dynamic-engines"](Results(tmp_path))


@pytest.mark.slow
@pytest.mark.skipif(get_cc() is None, reason="no C++ compiler")
def test_a_dry_run_has_right_outputs_at_all_sizes(tmp_path: Path) -> None:
    subject.main(["--dry", "--runs", "2", "--out", str(tmp_path), "--runs-in", str(tmp_path / "runs")])
    (file,) = tmp_path.glob("dynamic/*-dry/result.json")
    result = json.loads(file.read_text())
    assert {(one["engine"], one["size"]) for one in result["rows"]} == {
        *((FORETUNE, "b=7"), (FORETUNE, "b=8"), (BUCKETS, "b=7"), (BUCKETS, "b=8"), (FIXED, "b=8")),
    }
    assert all(one["error"] == "" and one["latency_s"] > 0 for one in result["rows"])
    assert all(one["ready_s"] > 0 and one["library_mb"] > 0 for one in result["rows"])
    costs = result["networks"]["dry"]
    assert costs["ready_over_fixed"] > 0 and 0.5 < costs["peak_over_fixed"] < 2
    assert {engine: len(seconds) for engine, seconds in costs["library_s"].items()} == {
        FORETUNE: 1,
        BUCKETS: 1,
        FIXED: 1,
    }
    assert not list((tmp_path / "runs").rglob("*.so"))
    assert "Dynamic shapes" in (tmp_path / "runs" / "dynamic.html").read_text()
