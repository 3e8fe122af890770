"""Sets of networks: who is in one, and what its tasks are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from foretune.compiler.operators import Dense, to_task
from foretune.inference.run.network_set import (
    Member,
    NetworkSetError,
    check_export,
    export_of,
    members_of,
    operator_set,
)


def names(*arguments):
    return [member.name for member in members_of(*arguments)]


def test_a_single_network_is_a_set_of_one():
    assert members_of("resnet18") == [Member("resnet18", "resnet18", 1, None)]
    one = members_of("nets:Net", 1, [[1, 3, 8, 8]])
    assert one == [Member("Net", "nets:Net", 1, [[1, 3, 8, 8]])]
    two_inputs = [[1, 4], {"shape": [1], "dtype": "int64"}]
    assert members_of("nets:Net", 1, two_inputs)[0].inputs == two_inputs


def test_each_network_comes_with_each_batch_size():
    assert names(["resnet50", "mobilenetv2"], [1, 16]) == [
        "resnet50-batch1",
        "resnet50-batch16",
        "mobilenetv2-batch1",
        "mobilenetv2-batch16",
    ]
    assert names(["resnet18"], 4) == ["resnet18"]


def test_several_lists_of_inputs_are_several_networks():
    lengths = [[{"shape": [1, 64], "dtype": "int64"}], [{"shape": [1, 128], "dtype": "int64"}]]
    members = members_of("bert_base", 1, lengths)
    assert [member.name for member in members] == ["bert_base-1x64", "bert_base-1x128"]
    assert [member.inputs for member in members] == lengths
    assert names("net", 1, [[[1, 64]], [[1, 128]]]) == ["net-1x64", "net-1x128"]


def test_networks_of_one_name_are_told_apart():
    assert names(["a.nets:Net", "b.nets:Net"]) == ["Net", "Net-2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([],), "network=.*empty; give at least one"),
        ((["resnet18", "resnet18"],), "network: resnet18 is listed twice"),
        (("resnet18", []), "batch=.*empty"),
        (("resnet18", [1, 1]), "batch: 1 is listed twice"),
        (("resnet18", [0]), "batch=0: a whole number"),
        (("resnet18", "many"), "batch='many': a whole number"),
        ((5,), "network=5: give one, or a list"),
        (([5],), "network=5: a name"),
        (("resnet18", 1, []), "inputs=.*empty"),
        (("resnet18", 1, [[[1, 64]], [[1, 64]]]), "inputs: .* is listed twice"),
        (("resnet18", [1, 2], [[1, 64]]), "inputs= gives the shapes"),
    ],
)
def test_bad_sets_are_one_clear_error(arguments, message):
    with pytest.raises(NetworkSetError, match=message):
        members_of(*arguments)


def test_a_set_is_exported_into_a_folder_or_by_a_pattern():
    member = Member("resnet50-batch16", "resnet50", 16, None)
    assert export_of(Path("out"), member, True) == Path("out/resnet50-batch16.so")
    assert export_of(Path("out/{name}.so"), member, True) == Path("out/resnet50-batch16.so")
    assert export_of(Path("out/net.so"), member, False) == Path("out/net.so")
    assert export_of(None, member, True) is None
    check_export(Path("out/net.so"), False)
    check_export(Path("out/{name}.so"), True)
    with pytest.raises(NetworkSetError, match=r"export=out/net.so: .* export=out/\{name\}.so"):
        check_export(Path("out/net.so"), True)


def test_a_task_of_two_networks_is_searched_once_with_all_its_calls():
    one, other = (replace(to_task(Dense(rows=2, in_features=3, out_features=n)), weight=2) for n in (4, 5))
    same_name = replace(other, name=one.name)
    found = operator_set({"a": [one], "b": [replace(one, name="renamed", weight=3), same_name]})
    assert [(task.name, task.weight) for task in found] == [(one.name, 5), (f"b/{one.name}", 2)]
