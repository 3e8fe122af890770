"""GPU templates on the study's problems, with made-up times."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from foretune.dataset.templates.gpu.compilation import Compiled, Kernel
from foretune.dataset.templates.gpu.problem import BackToBack, Product
from foretune.dataset.templates.gpu.profiler import Profile, Profiled
from foretune.dataset.templates.gpu.tiling import GPUS, Tiling, ranked

from benchmarks.gpu_templates import __main__ as subject
from benchmarks.tables.gpu_templates import problems
from benchmarks.tables.reading import Results

PAIR = BackToBack(m=64, k=32, middle=32, n=16, activation="relu")


def made_up(problem, gpu, count, *, measure):
    compiled = Compiled(Tiling(64, 32, 32, 4, 3), (Kernel(40, 0, 1024, ""),))
    return Profile([Profiled(compiled, measure(problem, compiled) if measure else None)])


@pytest.mark.parametrize("name", subject.PROBLEMS)
@pytest.mark.parametrize("capability", GPUS)
def test_each_problem_has_templates(name, capability):
    for problem in (subject.PROBLEMS[name], *subject.parts_of(subject.PROBLEMS[name])):
        assert len(ranked(problem, GPUS[capability])) >= 8


def test_a_pair_stands_beside_its_two_products(monkeypatch):
    monkeypatch.setattr(subject, "profile", made_up)
    first, second = subject.parts_of(PAIR)
    assert first == Product(m=64, n=32, k=32, activation="relu")
    assert second == Product(m=64, n=16, k=32, activation="relu")
    seconds = {first: 2e-3, second: 1e-3, PAIR: 2.5e-3}
    rivals = {"library_s": lambda _: 4e-3, "compiler_s": lambda _: 3.5e-3}
    row = subject.row_of("pair", PAIR, GPUS[80], 8, lambda problem, _: seconds[problem], rivals)
    assert (row["latency_s"], row["apart_s"], row["library_s"]) == (2.5e-3, pytest.approx(3e-3), 4e-3)
    result = SimpleNamespace(machine="h100", values={"problems": [row]}, manifest={"notes": "Once."})
    table = problems(SimpleNamespace(of=lambda benchmark: [result]))
    assert "| h100 | pair | 64x32x32, 4 warps | 2.50 ms | 1.60x | 1.40x | 1.20x | 1.00x |" in table
    assert "Once." in table


def test_nothing_is_claimed_without_a_gpu(monkeypatch, tmp_path):
    monkeypatch.setattr(subject, "profile", made_up)
    row = subject.row_of("pair", PAIR, GPUS[80], 8, None, {})
    assert row["latency_s"] is row["apart_s"] is row["estimates"] is None
    assert problems(Results(tmp_path)) == "Not measured yet: `python -m benchmarks.gpu_templates`."
