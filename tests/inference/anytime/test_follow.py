"""Networks that follow their file: exchanges, failures, threads, and the time of a call."""

from __future__ import annotations

import gc
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foretune.compiler.networks import load_network, to_relax
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.anytime.follow import ExchangedNetworkError, FollowedNetwork, unused_name
from foretune.inference.deploy.compile import CompiledNetwork, compile_network
from foretune.inference.deploy.description import TensorSpec
from foretune.inference.deploy.load import load
from tvm.support.cc import get_cc

TARGET = parse_target("llvm")
X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
RELU, TANH = np.maximum(X, 0), np.tanh(X)
X_SPEC = TensorSpec("x", (3, 4), "float32")


class Number:
    """A loaded network that returns the number in its file."""

    def __init__(self, path: Path) -> None:
        self.number = int(path.read_text())
        self.inputs = (X_SPEC,)
        self.outputs: tuple[TensorSpec, ...] = (X_SPEC,) if self.number >= 0 else ()
        self.target, self.threads = "{}", 1

    def __call__(self, *inputs: Any) -> int:
        return self.number

    def profile(self, *inputs: Any, repeats: int = 10) -> Any:
        return self.number, repeats


def exchange(path: Path, text: str) -> None:
    beside = path.with_name("beside")
    beside.write_text(text)
    beside.replace(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    exchange(tmp_path / "net", "1")
    return tmp_path / "net"


@pytest.fixture
def followed(path: Path) -> FollowedNetwork:
    return FollowedNetwork(path, lambda: Number(path))


def test_a_call_runs_the_newest_library(path: Path, followed: FollowedNetwork) -> None:
    assert followed() == 1
    for number in (2, 3):
        exchange(path, str(number))
        assert followed() == number
    exchange(path, "4")
    assert followed.profile(repeats=3) == (4, 3)
    assert (followed.inputs, followed.outputs, followed.target, followed.threads) == (
        (X_SPEC,),
        (X_SPEC,),
        "{}",
        1,
    )


def test_a_file_is_loaded_once(path: Path) -> None:
    loads: list[int] = []

    def load_it() -> Number:
        loads.append(1)
        return Number(path)

    followed = FollowedNetwork(path, load_it)
    for _ in range(5):
        followed()
    exchange(path, "1")  # the same content in another file
    for _ in range(5):
        followed()
    assert len(loads) == 2


@pytest.mark.parametrize("broken", ["no number", None])
def test_a_file_that_cannot_be_loaded_is_a_warning_and_nothing_else(
    broken: str | None, path: Path, followed: FollowedNetwork
) -> None:
    if broken is None:
        path.unlink()
    else:
        exchange(path, broken)
    with pytest.warns(RuntimeWarning, match="the earlier library stays in use, because the new file") as told:
        assert followed() == 1
    assert len(told) == 1 and told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert followed() == 1
        exchange(path, "2")
        assert followed() == 2


def test_other_outputs_are_named_and_the_library_before_stays(path: Path, followed: FollowedNetwork) -> None:
    exchange(path, "-1")
    wrong = r"net: the new library has the outputs none instead of x: float32 \[3, 4\]; the earlier library"
    with pytest.raises(ExchangedNetworkError, match=wrong):
        followed()
    assert followed() == 1
    exchange(path, "2")
    assert followed() == 2


def test_while_one_call_loads_the_others_run_what_they_have(path: Path) -> None:
    may_load, loads = threading.Event(), threading.Event()
    may_load.set()

    def load_it() -> Number:
        loads.set()
        assert may_load.wait(30)
        return Number(path)

    followed = FollowedNetwork(path, load_it)
    may_load.clear(), loads.clear()
    exchange(path, "2")
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(followed()))
    thread.start()
    assert loads.wait(30)
    assert followed() == 1
    may_load.set()
    thread.join()
    assert found == [2] and followed() == 2


def test_a_call_costs_microseconds(followed: FollowedNetwork) -> None:
    calls, shortest_s = 200, float("inf")
    for _ in range(20):
        began = time.perf_counter()
        for _ in range(calls):
            followed()
        shortest_s = min(shortest_s, (time.perf_counter() - began) / calls)
    assert shortest_s < 20e-6


def test_a_library_has_a_name_of_its_own_each_time(tmp_path: Path) -> None:
    (tmp_path / "net.so").write_text("code")
    with unused_name(tmp_path / "net.so") as first, unused_name(tmp_path / "net.so") as second:
        assert len({tmp_path / "net.so", first, second}) == 3
        assert first.read_text() == "code" and first.suffix == ".so"
    assert not first.exists()


def test_without_a_folder_for_links_a_library_keeps_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with unused_name(tmp_path / "net.so") as name:
        assert name == tmp_path / "net.so"


# --- real libraries


@pytest.fixture(scope="module")
def compiled() -> Iterator[dict[str, CompiledNetwork]]:
    if get_cc() is None:
        pytest.skip("no C++ compiler")
    shapes = {"torch.nn:ReLU": [[3, 4]], "torch.nn:Tanh": [[3, 4]], "torch.nn:Sigmoid": [[3, 5]]}
    found = {}
    for name, inputs in shapes.items():
        network = load_network(name, inputs=inputs)
        found[name] = compile_network(to_relax(network, TARGET), TARGET)
    yield found


def test_an_exchanged_library_is_the_new_one_and_the_old_one_goes_on(
    compiled: dict[str, CompiledNetwork], tmp_path: Path
) -> None:
    path = tmp_path / "net.so"
    compiled["torch.nn:ReLU"].export(path)
    before, followed = load(path), load(path, follow=True)
    np.testing.assert_array_equal(followed(X), RELU)
    kept = followed(X)
    compiled["torch.nn:Tanh"].export(path)
    np.testing.assert_allclose(followed(X), TANH, rtol=1e-5)
    np.testing.assert_allclose(load(path)(X), TANH, rtol=1e-5)  # under a name that was loaded before
    np.testing.assert_array_equal(before(X), RELU)
    np.testing.assert_array_equal(kept, RELU)
    compiled["torch.nn:Sigmoid"].export(path)
    with pytest.raises(ExchangedNetworkError, match=r"inputs .*: float32 \[3, 5\] instead of .* \[3, 4\]"):
        followed(X)
    np.testing.assert_allclose(followed(X), TANH, rtol=1e-5)
    assert "FollowedNetwork(LoadedNetwork(" in repr(followed)


def test_readers_never_see_half_a_library(compiled: dict[str, CompiledNetwork], tmp_path: Path) -> None:
    path = tmp_path / "net.so"
    forms = [compiled["torch.nn:ReLU"], compiled["torch.nn:Tanh"]]
    forms[0].export(path)
    followed, over, wrong = load(path, follow=True), threading.Event(), list[Any]()
    followed(X)

    def read() -> None:
        while not over.is_set():
            for network in (followed, load(path)):
                found = network(X)
                if not any(np.allclose(found, right, rtol=1e-5) for right in (RELU, TANH)):
                    wrong.append(found)

    def guarded() -> None:
        try:
            read()
        except Exception as error:
            wrong.append(error)

    reader = threading.Thread(target=guarded)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as one for a library that cannot be loaded
        reader.start()
        for number in range(40):
            forms[number % 2].export(path)
            time.sleep(0.005)
        over.set()
        reader.join()
    assert wrong == []
    np.testing.assert_allclose(followed(X), TANH, rtol=1e-5)
    assert [one.name for one in tmp_path.iterdir()] == ["net.so"]
    if (maps := Path("/proc/self/maps")).exists():  # libraries that nothing uses are gone
        del reader
        gc.collect()
        assert sum(str(path) in line and "r-xp" in line for line in maps.read_text().splitlines()) == 1
