"""Converted networks come back as they were, and nothing that is damaged, foreign or older does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from foretune.compiler.networks import (
    AS_FASTEST,
    Lowering,
    Network,
    load_network,
    lowered,
    lowered_network,
    to_relax,
)
from foretune.compiler.networks.cached import network_cache
from foretune.compiler.networks.cached.network_cache import CacheEntry, entry_of
from foretune.compiler.networks.cached.stored_module import StoredModule, parts_of
from foretune.compiler.networks.lowering.buildable import RECAST
from foretune.compiler.tvm_compat import parse_target

TARGET = parse_target({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 2})
OTHER = parse_target({"kind": "llvm", "mcpu": "haswell", "num-cores": 2})


@pytest.fixture(scope="module")
def network() -> Network:
    return load_network("support.networks:Convolutions", inputs=[[1, 64, 12, 12]])


@pytest.fixture(scope="module")
def converted(network: Network) -> tvm.IRModule:
    return to_relax(network, TARGET)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "foretune" / "networks"


@pytest.fixture
def conversions(converted: tvm.IRModule, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the networks that are converted. All have the same module, as conversions take seconds."""
    names: list[str] = []

    def convert(network: Network, *_: Any) -> tvm.IRModule:
        names.append(network.name)
        return converted

    monkeypatch.setattr(lowered, "to_relax", convert)
    return names


def accepted(_: tvm.IRModule) -> None:
    """Check that every module passes."""


def cached(network: Network, **changes: Any) -> Any:
    settings: dict[str, Any] = {"target": TARGET, "lowering": AS_FASTEST, "check": accepted, **changes}
    found = lowered_network(network, cached=True, **settings)
    found.keep()
    return found


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.exists() else []


def test_a_network_is_converted_once_and_comes_back_equal(network: Network, conversions: list[str]) -> None:
    first, again = cached(network), cached(network.with_other_inputs(3))
    assert conversions == ["Convolutions"]
    tvm.ir.assert_structural_equal(first.relax_mod, again.relax_mod)
    assert again.lowering_s == first.lowering_s > 0
    found, wanted = ([one.workload_hash for one in some.tasks] for some in (again, first))
    assert found == wanted and len(found) > 1
    found, wanted = ([(one.name, one.replaces, one.gain) for one in some.offers] for some in (again, first))
    assert found == wanted and found
    constants = [parts_of(StoredModule(one.relax_mod, 0.0))[1:] for one in (first, again)]
    assert constants[0] == constants[1] and sum(map(len, constants[0])) > 1000


def test_a_network_is_only_read_if_one_of_its_size_was_kept(
    network: Network, conversions: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def fingerprint(one: Network, **options: Any) -> str | None:
        read.append(one.name)
        return known(one, **options)

    known = network_cache.fingerprint
    monkeypatch.setattr(network_cache, "fingerprint", fingerprint)
    first = lowered_network(network, TARGET, AS_FASTEST, check=accepted, cached=True)
    assert read == []
    first.keep()
    assert len(read) == 1
    cached(network)
    assert len(read) == 2 and len(conversions) == 1
    cached(load_network("support.networks:Convolutions", inputs=[[1, 64, 12, 12]], seed=1))  # other weights
    assert len(read) == 3 and len(conversions) == 2
    lowered_network(network, OTHER, AS_FASTEST, check=accepted, cached=True)
    assert len(read) == 3 and len(conversions) == 3


def test_nothing_is_written_before_a_run_has_the_time(
    network: Network, folder: Path, conversions: list[str]
) -> None:
    made = lowered_network(network, TARGET, AS_FASTEST, check=accepted, cached=True)
    assert files(folder) == []
    made.keep()
    assert len(files(folder)) == 1


def test_a_module_that_fails_its_check_later_is_not_kept(
    network: Network, folder: Path, conversions: list[str]
) -> None:
    def refuse(_: tvm.IRModule) -> None:
        raise ValueError("wrong")

    made = lowered_network(network, TARGET, AS_FASTEST, check=refuse, cached=True, waits=False)
    with pytest.raises(ValueError, match="wrong"):
        made.keep()
    assert files(folder) == []


def test_what_changes_the_conversion_is_converted_again(network: Network, conversions: list[str]) -> None:
    cached(network)
    cached(network, target=OTHER)
    cached(network, lowering=Lowering(channels_last=False))
    trained = load_network("support.networks:Convolutions", inputs=[[1, 64, 12, 12]], seed=1)
    cached(trained)
    assert len(conversions) == 4


def test_another_version_has_other_entries(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    before = entry_of(network, TARGET, AS_FASTEST)
    assert before == entry_of(network, TARGET, AS_FASTEST)
    monkeypatch.setattr(network_cache, "code_version", lambda: ("other sources",))
    assert entry_of(network, TARGET, AS_FASTEST) != before


def test_without_a_check_that_it_passes_nothing_is_kept(
    network: Network, folder: Path, conversions: list[str]
) -> None:
    def refuse(_: tvm.IRModule) -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        cached(network, check=refuse)
    cached(network, check=None)
    lowered_network(network, TARGET, AS_FASTEST, check=accepted).keep()
    assert len(conversions) == 3 and files(folder) == []


def _flipped(data: bytes) -> bytes:
    return data[:-5] + bytes([data[-5] ^ 1]) + data[-4:]


@pytest.mark.parametrize(
    "damage",
    [
        _flipped,
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: b"\x80\x04cposix\nsystem\n",
        lambda data: data[:64] + b"".join(parts_of(StoredModule(tvm.IRModule({"main": _identity()}), 0.0))),
    ],
    ids=["one bit", "half", "empty", "a pickle", "of another network"],
)
def test_damage_is_replaced_silently(
    network: Network, folder: Path, conversions: list[str], damage: Any
) -> None:
    cached(network)
    (path,) = files(folder)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    first = cached(network)
    assert len(conversions) == 2 and first.tasks
    cached(network)
    assert len(conversions) == 2 and len(path.read_bytes()) == pytest.approx(len(whole), abs=50)


def _identity() -> Any:
    builder = tvm.relax.BlockBuilder()
    x = tvm.relax.Var("x", tvm.relax.TensorType([2], "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(x)
    return builder.get()["main"]


def test_a_disk_that_cannot_be_written_is_no_error(
    network: Network, folder: Path, conversions: list[str]
) -> None:
    folder.parent.mkdir(parents=True)
    folder.write_text("a file in place of the folder")
    assert cached(network).tasks and cached(network).tasks
    assert len(conversions) == 2


def test_attributes_and_data_types_come_back() -> None:
    builder = tvm.relax.BlockBuilder()
    x = tvm.relax.Var("x", tvm.relax.TensorType([2], "float32"))
    values = [
        np.array(value, dtype) for value, dtype in ((3, "int64"), ([True, False], "bool"), ([], "int8"))
    ]
    with builder.function("main", [x]):
        found = [tvm.relax.const(array) for array in (*values, values[0])]
        builder.emit_func_output(tvm.relax.Tuple([x, *found]))
    mod = builder.get().with_attr(RECAST, ["equal of bool in int32"])
    entry = CacheEntry("abc")
    entry.store(StoredModule(mod, 1.5))
    stored = entry.load()
    assert stored is not None and stored.lowering_s == 1.5
    tvm.ir.assert_structural_equal(stored.relax_mod, mod)
    assert [str(text) for text in stored.relax_mod.attrs[RECAST]] == ["equal of bool in int32"]
    assert len(stored.relax_mod["main"].params) == 1


def test_a_network_without_a_fingerprint_is_converted_each_time(
    network: Network, folder: Path, conversions: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_cache, "fingerprint", lambda *_, **__: None)
    assert cached(network).tasks and cached(replace(network)).tasks
    assert len(conversions) == 2 and files(folder) == []
