"""Targets by name: this machine's CPU with all that it has."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from foretune.dataset.templates.instructions import target_instructions
from foretune.dataset.tvm_compat import (
    UnknownTargetError,
    missing_instruction_sets,
    parse_target,
    target_vectors,
    targets,
)

SAPPHIRE_RAPIDS = {"kind": "llvm", "mcpu": "sapphirerapids", "num-cores": 2}


def pretend(monkeypatch, cpu, **features):
    """Lets LLVM take this machine for `cpu`, with these features by name."""
    found = {name.replace("_", "-"): is_there for name, is_there in features.items()}
    monkeypatch.setattr(targets, "llvm_get_system_cpu", lambda: cpu)
    host = SimpleNamespace(get_global_func=lambda name: lambda: found)
    monkeypatch.setattr(targets, "tvm_ffi", host)


def test_llvm_has_the_instruction_sets_that_the_name_of_the_cpu_lacks(monkeypatch):
    pretend(monkeypatch, "x86-64-v3", avx2=1, avx512f=0, avxvnni=1, amx_tile=1, serialize=1, **{"avx10.1": 1})
    target = parse_target("llvm")
    assert target.attrs["mcpu"] == "x86-64-v3"
    assert list(target.attrs["mattr"]) == ["+amx-tile", "+avxvnni"]
    assert missing_instruction_sets(target) == []


def test_llvm_is_the_cpu_by_its_name_where_that_tells_all(monkeypatch):
    pretend(monkeypatch, "x86-64-v3", avx=1, avx2=1, fma=1, avx512f=0)
    assert "mattr" not in parse_target("llvm").attrs


def test_llvm_lacks_the_instruction_sets_that_a_virtual_machine_hides(monkeypatch):
    hidden = {"amx-tile": 0, "amx-bf16": 0, "amx-int8": 0}
    there = {str(name): 1 for name in targets.llvm_get_cpu_features(parse_target(SAPPHIRE_RAPIDS))}
    pretend(monkeypatch, "sapphirerapids", **{**there, **hidden})
    target = parse_target("llvm")
    assert list(target.attrs["mattr"]) == ["-amx-bf16", "-amx-int8", "-amx-tile"]
    assert missing_instruction_sets(target) == []
    names = [one.name for one in target_instructions(target, "bfloat16", "bfloat16", "float32")]
    assert names == ["avx512_bf16"]
    assert target_vectors(target) == (512, True)


def test_code_for_this_machine_runs_on_this_machine():
    assert missing_instruction_sets(parse_target("llvm")) == []


@pytest.mark.parametrize("spec", ["bogus", "{}", {"kind": "llvm", "num-cores": "two"}])
def test_bad_targets_are_named(spec):
    with pytest.raises(UnknownTargetError, match="target="):
        parse_target(spec)
