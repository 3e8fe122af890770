"""Description that travels in a compiled network."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from foretune.compiler.dynamic.symbols import Symbol
from foretune.compiler.networks import load_network, to_relax
from foretune.compiler.tvm_compat import parse_target, target_to_json
from foretune.inference.deploy.compile import compile_network
from foretune.inference.deploy.description import (
    Description,
    DescriptionError,
    TensorSpec,
    describe,
    read_description,
)

TARGET = parse_target("llvm")


def test_a_compiled_network_carries_its_description() -> None:
    network = load_network("support.networks:Residual", inputs=[[1, 8, 6, 6]])
    compiled = compile_network(to_relax(network, TARGET), TARGET)
    found = read_description(compiled.executable.jit())
    assert found is not None
    assert found.target == target_to_json(TARGET)
    assert found.inputs == (TensorSpec("x", (1, 8, 6, 6), "float32"),)
    assert [spec.shape for spec in found.outputs] == [(1, 8, 6, 6), (1, 3)]
    assert found.fresh == (True, True)
    assert found.tasks == compiled.task_of
    assert set(found.tasks.values()) == {*compiled.scheduled, *compiled.unscheduled}


def test_outputs_that_are_views_are_told_apart() -> None:
    network = load_network("support.networks:SharedOutputs", inputs=[[4, 4]])
    found = describe(to_relax(network, TARGET), TARGET, {})
    assert found is not None
    # The input, a view of it, a weight; one computed result, twice.
    assert found.fresh == (False, False, False, True, True)


def test_json_gives_the_description_back() -> None:
    spec = TensorSpec("x", (2, 3), "int64")
    description = Description('{"kind": "llvm"}', (spec,), (spec, spec), (True, False), {"fused": "task"})
    assert Description.from_json(description.to_json()) == description


def test_a_network_with_symbols_has_further_fields() -> None:
    spec, symbols = TensorSpec("x", ("n", 2), "float32"), (Symbol("n", 1, 8),)
    families = ({"name": "fused_matmul", "kind": "product"},)
    dynamic = Description("{}", (spec,), (), (), {}, symbols, beyond=True, families=families)
    assert Description.from_json(dynamic.to_json()) == dynamic
    assert "families" not in replace(dynamic, symbols=()).to_json()


def test_a_description_of_a_later_release_is_named() -> None:
    text = json.dumps({**json.loads(Description("", (), (), (), {}).to_json()), "version": 99})
    with pytest.raises(DescriptionError, match="version 99: this release reads 1"):
        Description.from_json(text)
