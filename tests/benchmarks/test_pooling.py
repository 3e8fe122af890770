"""Averages of channels in registers and by themselves: which tasks are timed."""

from __future__ import annotations

import pytest
from foretune.compiler.templates.cpu.depthwise import read_depthwise
from foretune.errors import UserError
from support.cpus import HERE, multiplies
from tvm.target import Target

from benchmarks.pooling import layers as subject
from benchmarks.pooling.__main__ import describe


def test_the_forms_of_a_layer_are_one_function_each():
    shape, layer = (24, 10), (3, 2, "relu")
    image, both = (
        read_depthwise(subject.task_of(form, shape, HERE, *layer).mod)
        for form in (subject.Image, subject.Both)
    )
    assert image.pooling is None and both.pooling is not None
    assert (
        (both.rows, both.channels, both.stride)
        == (image.rows, image.channels, image.stride)
        == (5, 24, (2, 2))
    )
    assert read_depthwise(subject.task_of(subject.Average, (24, 5), HERE).mod) is None


@multiplies("float32")
def test_all_forms_are_timed(monkeypatch):
    monkeypatch.setattr(subject, "DRAWS", 2)
    monkeypatch.setattr(subject, "warm_seconds", lambda run, turn_s=0.0: run() or 1e-5)
    row = subject.measured((10, 16, 3, 1, "silu"), HERE, turns=2)
    assert row == {"latency_s": dict.fromkeys(("image", "separate", "joined"), 1e-5)}
    assert "joined 10.0 us" in describe({"network": "N", "layer": "L", **row})


def test_a_target_without_templates_is_an_error():
    plain = Target({"kind": "llvm", "mcpu": "x86-64", "num-cores": 2})
    with pytest.raises(UserError, match=r"no template of .*; give a CPU with AVX2"):
        subject.by_template(subject.task_of(subject.Image, (16, 8), plain, 3, 1, "relu"), plain)


def test_layers_have_names():
    names = [subject.name_of(layer) for layers in subject.LAYERS.values() for layer in layers]
    assert len(set(names)) == len(names) and "112 96 3x3 / 2 silu" in names
