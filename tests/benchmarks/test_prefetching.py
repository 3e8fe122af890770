"""Prefetches of weights, layer by layer: which template is taken, and what it is compared with."""

from __future__ import annotations

from foretune.compiler.codegen.prefetching import with_prefetches
from foretune.compiler.tvm_compat import parse_target
from tvm.target import Target

from benchmarks import prefetching as subject
from benchmarks.templates.shapes import Linear

SERVER = Target({"kind": "llvm", "mcpu": "sapphirerapids", "num-cores": 2})


def test_a_template_is_compared_with_itself_without_marks():
    _, program = subject.streaming(Linear(32, 128, 48).task("float32"), SERVER)
    plain = subject.unmarked(program)
    assert len(subject.marks(program)) == 1 and subject.marks(plain) == []
    assert not with_prefetches(program["main"]).same_as(program["main"])
    assert with_prefetches(plain["main"]).same_as(plain["main"])


def test_a_layer_that_no_template_streams_is_left_out(monkeypatch):
    assert subject.streaming(Linear(64, 128, 64).task("uint8"), SERVER) is None
    monkeypatch.setattr(subject, "streaming", lambda module, target: None)
    assert subject.measured(None, SERVER) is None


def test_weights_far_and_near_are_timed_in_turns(monkeypatch):
    monkeypatch.setattr(subject, "SECONDS", 0.0)
    monkeypatch.setattr(subject, "FAR_BYTES", 0)
    row = subject.measured(Linear(32, 256, 48).task("float32"), parse_target("llvm"))
    assert row["prefetched"] and set(row["gflops"]) == {"far", "near"}
    assert all(speed > 0 for by_name in row["gflops"].values() for speed in by_name.values())
    assert "far" in subject.describe({"shape": "dense", "dtype": "float32", **row})
