"""Object files of measured programs, linked into a network's library."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm
from foretune.compiler.codegen import objects
from foretune.compiler.codegen.argument_checks import marked_internal
from foretune.compiler.codegen.compilation import TIMED, entries, jit
from foretune.compiler.codegen.objects import ObjectFiles, linkable, symbol_of
from foretune.compiler.codegen.packed_weights import with_packed_weights
from foretune.compiler.networks import Network, extract_tasks, load_network, to_relax
from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import as_task_module, parse_target
from foretune.inference.deploy.compile import CompiledNetwork, compile_network
from foretune.inference.deploy.load import load
from support.schedules import database_of
from tvm import te
from tvm.s_tir import meta_schedule as ms
from tvm.support.cc import get_cc
from tvm.target import Target

TARGET = parse_target("llvm")
OTHER = Target({"kind": "llvm", "mcpu": "x86-64", "num-cores": 1})

pytestmark = pytest.mark.skipif(get_cc() is None, reason="no C++ compiler")


@pytest.fixture(scope="module")
def network() -> Network:
    return load_network("support.networks:Residual", inputs=[[1, 8, 6, 6]])


@pytest.fixture(scope="module")
def relax_mod(network: Network) -> tvm.IRModule:
    return to_relax(network, TARGET)


@pytest.fixture(scope="module")
def conv(relax_mod: tvm.IRModule) -> Task:
    tasks = extract_tasks(relax_mod, TARGET, "residual")
    return next(task for task in tasks if task.operator == "conv2d")


@pytest.fixture(scope="module")
def database(conv: Task) -> ms.Database:
    return database_of([conv], TARGET)


@pytest.fixture(scope="module")
def program(conv: Task, database: ms.Database) -> tvm.IRModule:
    """The scheduled convolution."""
    record = database.query_tuning_record(as_task_module(conv.mod["main"]), TARGET, "main")
    schedule = tvm.s_tir.Schedule(record.workload.mod)
    record.trace.apply_to_schedule(schedule, remove_postproc=False)
    return schedule.mod


@pytest.fixture(scope="module")
def object_file(program: tvm.IRModule, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Object file that a measuring process writes of the scheduled convolution."""
    mod, _ = entries(program, checked=False)
    library = jit(linkable(mod, TARGET, TIMED), TARGET)
    assert library[TIMED] is not None  # as in a measurement, the library is used first
    path = tmp_path_factory.mktemp("object") / "program.o"
    library.write_to_file(str(path))
    return path.read_bytes()


def kept(data: bytes) -> ObjectFiles:
    files = ObjectFiles()
    files.keep(data)
    return files


def packed(relax_mod: tvm.IRModule, database: ms.Database) -> tvm.IRModule:
    with TARGET, database:
        return with_packed_weights(tvm.relax.transform.MetaScheduleApplyDatabase()(relax_mod))


@pytest.fixture(scope="module")
def compiled(relax_mod: tvm.IRModule, database: ms.Database) -> CompiledNetwork:
    return compile_network(relax_mod, TARGET, database)


def assert_same(network: Network, one: CompiledNetwork, other: CompiledNetwork) -> None:
    for found, wanted in zip(one(*network.inputs), other(*network.inputs), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_linked_program_computes_what_the_compiled_one_does(
    network: Network,
    relax_mod: tvm.IRModule,
    database: ms.Database,
    object_file: bytes,
    conv: Task,
    compiled: CompiledNetwork,
    tmp_path: Path,
) -> None:
    linked = compile_network(relax_mod, TARGET, database, kept=kept(object_file))
    assert linked.linked.symbols.keys() == linked.task_of.keys()
    assert object_file in linked.linked.objects.values()
    assert linked.scheduled == (conv.name,) and linked.task_of == compiled.task_of
    assert_same(network, linked, compiled)
    linked.export(tmp_path / "network.so")
    loaded = load(tmp_path / "network.so")(*network.inputs)
    for found, wanted in zip(loaded, compiled(*network.inputs), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_program_that_was_prepared_is_not_compiled_again(
    network: Network,
    relax_mod: tvm.IRModule,
    database: ms.Database,
    program: tvm.IRModule,
    compiled: CompiledNetwork,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files, made = ObjectFiles(), []
    files.prepare(program, TARGET)
    (symbol,) = files._found
    monkeypatch.setattr(objects, "_compiled", lambda func, symbol, target: made.append(symbol))
    linked = compile_network(relax_mod, TARGET, database, kept=files)
    assert symbol in linked.linked.symbols.values() and symbol not in made
    assert_same(network, linked, compiled)


def test_a_program_with_another_schedule_is_compiled(
    network: Network, relax_mod: tvm.IRModule, object_file: bytes, compiled: CompiledNetwork
) -> None:
    untuned = compile_network(relax_mod, TARGET, kept=kept(object_file))
    assert object_file not in untuned.linked.objects.values() and untuned.linked.objects
    for found, wanted in zip(untuned(*network.inputs), compiled(*network.inputs), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("part", [slice(0, 0), slice(4, None), slice(600, None)])
def test_a_damaged_object_file_is_compiled_anew(
    part: slice,
    network: Network,
    relax_mod: tvm.IRModule,
    database: ms.Database,
    object_file: bytes,
    compiled: CompiledNetwork,
) -> None:
    anew = compile_network(relax_mod, TARGET, database, kept=kept(object_file[part]))
    assert anew.scheduled == compiled.scheduled
    assert_same(network, anew, compiled)


def test_a_function_that_reads_an_input_keeps_its_checks(
    relax_mod: tvm.IRModule, database: ms.Database, object_file: bytes
) -> None:
    files, mod = kept(object_file), packed(relax_mod, database)
    unchecked = files.linked_into(marked_internal(mod), TARGET).objects
    checked = files.linked_into(mod, TARGET).objects
    assert object_file in unchecked.values() and object_file not in checked.values()
    message = b"Mismatched type on argument"
    assert all(message in data for data in checked.values())
    assert 0 < sum(message in data for data in unchecked.values()) < len(unchecked)  # the first one


def increment(by: float) -> tvm.tirx.PrimFunc:
    a = te.placeholder((4,), "float32", "a")
    return te.create_prim_func([a, te.compute((4,), lambda i: a[i] + by)])


def test_a_symbol_tells_code_and_target_and_no_name() -> None:
    one = symbol_of(increment(1), TARGET)
    assert one == symbol_of(
        increment(1).with_attr("global_symbol", "other").with_attr("op_pattern", 0), TARGET
    )
    assert len({one, symbol_of(increment(2), TARGET), symbol_of(increment(1), OTHER)}) == 3


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "foretune" / "objects"


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Symbols of the functions that are compiled."""
    real, found = objects._compiled, []

    def compiled(func: tvm.tirx.PrimFunc, symbol: str, target: Target) -> bytes:
        found.append(symbol)
        return real(func, symbol, target)

    monkeypatch.setattr(objects, "_compiled", compiled)
    return found


def test_another_run_links_the_objects_of_the_cache(
    network: Network,
    relax_mod: tvm.IRModule,
    database: ms.Database,
    folder: Path,
    compilations: list[str],
    compiled: CompiledNetwork,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(*, cached: bool = True) -> CompiledNetwork:
        compilations.clear()
        return compile_network(relax_mod, TARGET, database, kept=ObjectFiles(cached=cached))

    run(cached=False)
    every = {*compilations}
    assert len(every) == len(compilations) > 2 and not folder.exists()
    assert {*run().linked.objects} == {*compilations} == every
    assert len([*folder.iterdir()]) == len(every)
    assert_same(network, run(), compiled)
    assert not compilations
    with monkeypatch.context() as other:
        other.setattr(objects, "code_version", lambda: ("another version",))
        run()
        assert {*compilations} == every
    # A damaged file, and a whole one with another program, are compiled again and replaced.
    symbol, foreign = sorted(every)[:2]
    path = objects.OBJECTS.path(objects._key(symbol))
    path.write_bytes(path.read_bytes()[:-1])
    other_object = objects.OBJECTS.load(objects._key(sorted(every)[2]))
    assert other_object is not None
    objects.OBJECTS.store({objects._key(foreign): [bytes(other_object)]})
    assert_same(network, run(), compiled)
    assert {*compilations} == {symbol, foreign}
    run()
    assert not compilations


def test_distrusted_objects_leave_the_cache(
    relax_mod: tvm.IRModule, database: ms.Database, folder: Path
) -> None:
    files = ObjectFiles(cached=True)
    assert compile_network(relax_mod, TARGET, database, kept=files).linked.symbols
    assert [*folder.iterdir()]
    files.distrust()
    assert not [*folder.iterdir()]
    assert not compile_network(relax_mod, TARGET, database, kept=files).linked.symbols
