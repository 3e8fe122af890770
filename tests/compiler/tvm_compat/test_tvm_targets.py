"""Targets by name: this machine's CPU with all that it has."""

from __future__ import annotations

import pytest
from foretune.compiler.targets import target_instructions, traits
from foretune.compiler.tvm_compat import (
    OLDER_CPU,
    OlderCpuError,
    UnknownTargetError,
    host_cpu,
    host_features,
    missing_instruction_sets,
    older_cpu,
    parse_target,
)
from tvm.target import Target
from tvm.target.codegen import llvm_get_cpu_features

pytestmark = pytest.mark.cpu

ZEN_4 = {"kind": "llvm", "mcpu": "znver4", "num-cores": 2}


def pretend(monkeypatch, cpu, **features):
    """Lets LLVM take this machine for `cpu`, with these features by name."""
    found = {name.replace("_", "-"): bool(is_there) for name, is_there in features.items()}
    monkeypatch.delenv(OLDER_CPU, raising=False)
    monkeypatch.setattr(host_cpu, "llvm_get_system_cpu", lambda: cpu)
    monkeypatch.setattr(host_cpu, "_machine_features", lambda: found)


def features_of(cpu):
    """Features of a CPU by LLVM's name, as of a machine that has them."""
    return {str(name): 1 for name in llvm_get_cpu_features(Target({"kind": "llvm", "mcpu": cpu}))}


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
    pretend(monkeypatch, "sapphirerapids", **{**features_of("sapphirerapids"), **hidden})
    target = parse_target("llvm")
    assert list(target.attrs["mattr"]) == ["-amx-bf16", "-amx-int8", "-amx-tile"]
    assert missing_instruction_sets(target) == []
    names = [one.name for one in target_instructions(target, "bfloat16", "bfloat16", "float32")]
    assert names == ["avx512_bf16"]
    assert (traits(target).vector_bits, traits(target).fuses_multiply_add) == (512, True)


def test_code_for_this_machine_runs_on_this_machine():
    assert missing_instruction_sets(parse_target("llvm")) == []


@pytest.mark.parametrize("spec", ["bogus", "{}", {"kind": "llvm", "num-cores": "two"}])
def test_bad_targets_are_named(spec):
    with pytest.raises(UnknownTargetError, match="target="):
        parse_target(spec)


def test_an_older_cpu_stands_in_for_this_machine(monkeypatch):
    pretend(monkeypatch, "znver4", **features_of("znver4"))
    monkeypatch.setenv(OLDER_CPU, "haswell")
    assert older_cpu() == "haswell"
    target = parse_target("llvm")
    assert target.attrs["mcpu"] == "haswell" and "mattr" not in target.attrs
    assert (traits(target).vector_bits, traits(target).fuses_multiply_add) == (256, True)
    assert missing_instruction_sets(target) == []
    assert {"avx512f", "avx512bf16"} <= set(missing_instruction_sets(parse_target(ZEN_4)))
    found = host_features()
    assert found["avx2"] and found["fma"] and not found["avx512f"] and not found["avx512bf16"]


def test_an_older_cpu_has_nothing_that_a_virtual_machine_hides(monkeypatch):
    pretend(monkeypatch, "znver4", **{**features_of("znver4"), "popcnt": 0})
    monkeypatch.setenv(OLDER_CPU, "haswell")
    with pytest.raises(OlderCpuError, match=r"FORETUNE_CPU=haswell: this machine's CPU lacks popcnt; name"):
        parse_target("llvm")


def test_no_newer_cpu_stands_in_for_this_machine(monkeypatch):
    pretend(monkeypatch, "haswell", **{**features_of("haswell"), "avx512f": 0, "amx-tile": 0})
    monkeypatch.setenv(OLDER_CPU, "sapphirerapids")
    with pytest.raises(OlderCpuError, match=r"FORETUNE_CPU=sapphirerapids: .* lacks amx-tile, avx512f; name"):
        parse_target("llvm")


def test_an_unknown_cpu_is_named_with_what_it_may_mean(monkeypatch):
    monkeypatch.setenv(OLDER_CPU, "haswel")
    with pytest.raises(OlderCpuError, match=r"FORETUNE_CPU=haswel: .* such as haswell"):
        missing_instruction_sets(parse_target(ZEN_4))


def test_an_empty_name_is_this_machine(monkeypatch):
    pretend(monkeypatch, "x86-64-v3", avx2=1)
    monkeypatch.setenv(OLDER_CPU, "")
    assert older_cpu() is None and parse_target("llvm").attrs["mcpu"] == "x86-64-v3"
