"""GPU templates on the study's problems, with made-up times."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from foretune.compiler.instruction_sets import GPUS
from foretune.compiler.templates.gpu.attention import BackToBack
from foretune.compiler.templates.gpu.compilation import Compiled, Kernel
from foretune.compiler.templates.gpu.problem import Product
from foretune.compiler.templates.gpu.profiler import Profile, Profiled
from foretune.compiler.templates.gpu.rows import Rows
from foretune.compiler.templates.gpu.tiling import Tiling, ranked
from support.gpu_networks import lowered
from support.needs_triton import needs_triton

from benchmarks.gpu_templates import __main__ as subject
from benchmarks.gpu_templates.problems import DEPARTURES, ONE_TEXT
from benchmarks.rivals import __main__ as rivals
from benchmarks.tables.gpu import templates, templates_note

PAIR = BackToBack(m=64, k=32, middle=32, n=16, activation="relu")


def made_up(problem, gpu, count, *, measure):
    compiled = Compiled(Tiling(64, 32, 32, 4, 3), (Kernel(40, 0, 1024, ""),))
    return Profile([Profiled(compiled, measure(problem, compiled) if measure else None)])


@pytest.mark.parametrize("name", subject.PROBLEMS)
@pytest.mark.parametrize("capability", GPUS)
def test_each_problem_has_templates(name, capability):
    for problem in (subject.PROBLEMS[name], *subject.parts_of(subject.PROBLEMS[name])):
        # A block that holds a row has few parameters.
        assert len(ranked(problem, GPUS[capability])) >= (2 if isinstance(problem, Rows) else 8)


def test_a_pair_stands_beside_its_two_products(monkeypatch):
    monkeypatch.setattr(subject, "profile", made_up)
    first, second = subject.parts_of(PAIR)
    assert first == Product(m=64, n=32, k=32, activation="relu")
    assert second == Product(m=64, n=16, k=32, activation="relu")
    seconds = {first: 2e-3, second: 1e-3, PAIR: 2.5e-3}
    rivals = {"library_s": lambda _: 4e-3, "compiler_s": lambda _: 3.5e-3}
    row = subject.row_of("pair", PAIR, GPUS[80], 8, lambda problem, _: seconds[problem], rivals)
    assert (row["latency_s"], row["apart_s"], row["library_s"]) == (2.5e-3, pytest.approx(3e-3), 4e-3)
    (shown,) = templates(SimpleNamespace(values={"problems": [row]}))
    assert shown["template"] == "64x32x32, 4 warps"
    assert [shown[name] for name in ("library", "compiler", "apart")] == pytest.approx([1.6, 1.4, 1.2])


def test_nothing_is_claimed_without_a_gpu(monkeypatch):
    monkeypatch.setattr(subject, "profile", made_up)
    row = subject.row_of("pair", PAIR, GPUS[80], 8, None, {})
    assert row["latency_s"] is row["apart_s"] is row["estimates"] is None


def note_of(*names: str) -> str:
    values = {"problems": [{"name": name} for name in names]}
    return templates_note([SimpleNamespace(values=values, manifest={"notes": "Once."})])


def test_the_table_tells_what_departs_from_the_paper_and_what_no_gpu_has_measured():
    ((name, text),) = DEPARTURES.items()
    assert "128 columns where Bolt's Table 1 has 96" in text
    assert subject.PROBLEMS[name].n == 128
    assert (
        note_of(name) == f"{text} Not measured yet: {len(ONE_TEXT)} of {len(ONE_TEXT)} newer problems. Once."
    )
    assert text not in note_of("square 1024")
    assert note_of(*ONE_TEXT) == "Once."


def test_all_tilings_of_a_problem_are_timed(monkeypatch):
    problem = Product(m=64, n=64, k=64)
    tilings = ranked(problem, GPUS[80])

    def every_tiling(*_):
        return len(tilings), lambda _, tiling, __: Compiled(tiling, (Kernel(40, 0, 1024, ""),))

    monkeypatch.setattr(subject, "every_tiling", every_tiling)
    timed = []

    def measure(_, compiled):
        timed.append(compiled.tiling)
        return float(len(timed))

    found = subject.row_of("all", problem, GPUS[80], subject.EVERY, measure, {})
    assert timed == tilings and found["exhaustive"]
    assert len(found["estimates"]) == len(tilings)


def test_the_network_is_tuned_in_bfloat16_beside_pytorch(monkeypatch, tmp_path):
    asked = []

    def started(command, **_):
        asked.append(command)
        return nullcontext(SimpleNamespace(wait=lambda: 0))

    monkeypatch.setattr(subject, "start_tied", started)
    subject.tune_and_time("bert_base", 90.0, tmp_path)
    ((_, module, *words),) = asked
    assert module == "benchmarks.rivals"
    parsed = rivals.arguments_of(words)
    assert (parsed.networks, parsed.target, parsed.variant) == (["bert_base"], "cuda", "cuda-bfloat16")
    assert parsed.overrides == ["target=cuda", "budget_s=90", "lowering.dtype=bfloat16"]
    assert parsed.out == tmp_path


@needs_triton
@pytest.mark.slow
def test_a_dry_run_compiles_what_a_network_would_launch(monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(subject, "load_network", lambda _: lowered("layer")[0])
    lines = list(subject.kernels_of("layer", GPUS[90]))
    assert [line.partition(":")[0] for line in lines[:3]] == [
        *("1 x fused_attention", "1 x fused_product_norm", "1 x fused_product_norm"),
    ]
    # The products of query, key and value, the one with GELU, and the input's conversion.
    assert sum("registers" in line for line in lines) == 5
    assert lines[0].endswith("cycles by the closed form") and "layer norm" in lines[1]
    assert any("no template computes it" in line for line in lines)
