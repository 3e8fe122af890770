"""Pretuned starts: the lookup, the command that makes the file, and a search that begins with them."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from foretune.cli import main
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.replay import replay
from foretune.compiler.tvm_compat import make_tune_context, parse_target, target_to_json
from foretune.dataset.records.store import RecordStore, StoreError
from foretune.inference.database.tuning_database import TuningDatabase
from foretune.inference.fasor.pretuned_schedules import PretunedError, PretunedSchedules, target_type
from foretune.inference.fasor.pretuned_starts import SHIPPED, PretunedStarts
from foretune.inference.pretune import PretuneConfig, pretune, shapes_of
from foretune.inference.reuse.parent import ReuseParent
from foretune.inference.search.config import OneShotConfig, OneShotConfigError
from foretune.inference.spaces.stock import StockSpace
from foretune.inference.starts.adapted import ProgramAdapter
from foretune.inference.starts.base import Start
from foretune.inference.starts.config import PretunedConfig
from foretune.inference.starts.configured import asked_starts
from foretune.inference.workers.searchers import start_searchers
from support.checkpoints import HARDWARE
from support.fake_executor import FakeExecutor
from support.paths import ROOT
from support.pools import pooled_record, sampled_traces, write_pool
from support.reuse import SM_80
from support.searchers import network_tuner

SMALL, LARGE, CHILD = (to_task(Dense(rows=16, in_features=32, out_features=n)) for n in (64, 512, 96))
OTHER_CLASS = to_task(Dense(rows=16, in_features=32, out_features=96, epilogue="bias_relu"))
ZEN = target_to_json(parse_target({"kind": "llvm", "mcpu": "znver4", "num-cores": 2}))


TARGET = parse_target({"kind": "llvm", "mcpu": "znver3", "num-cores": 2})


def on(record, target):
    return replace(record, target=target)


@pytest.fixture(scope="module")
def traces():
    return {task: sampled_traces(task, 2) for task in (SMALL, LARGE)}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory, traces):
    """Two programs each of SMALL and LARGE: the second one is faster; one record is simulated, one failed."""
    records = [
        on(pooled_record(task.workload_hash, trace, latency_s), ZEN)
        for task in (SMALL, LARGE)
        for trace, latency_s in zip(traces[task], (2e-3, 1e-3), strict=True)
    ]
    broken = on(pooled_record(SMALL.workload_hash, "[[], [1]]", float("inf")), ZEN)
    made_up = replace(on(pooled_record(SMALL.workload_hash, "[[], [2]]", 1e-9), ZEN), simulated=True)
    folder = tmp_path_factory.mktemp("data") / "pool"
    return write_pool(folder, [SMALL, LARGE], [*records, broken, made_up])


@pytest.fixture(scope="module")
def file(dataset):
    path = dataset.parent / "pretuned.parquet"
    main(["pretune", str(dataset), f"into={path}"])
    return path


def source(file, target=TARGET, **settings):
    config = PretunedConfig(**{"programs": 2, **settings})
    return PretunedStarts(
        PretunedSchedules(file), target, ProgramAdapter(target, StockSpace(6000)), config=config
    )


def test_the_command_keeps_the_fastest_program_that_ran(file, traces):
    found = PretunedSchedules(file)
    kept = {found.schedule(number).workload_hash: found.schedule(number) for number in range(len(found))}
    assert {name: one.trace for name, one in kept.items()} == {
        task.workload_hash: traces[task][1] for task in (SMALL, LARGE)
    }
    assert {one.latency_s for one in kept.values()} == {1e-3}


def test_tasks_that_a_file_is_judged_on_are_left_out_with_others_of_their_shapes(dataset, tmp_path):
    judged = write_pool(tmp_path / "judged", [replace(LARGE, name="elsewhere")], [])
    assert pretune([dataset], tmp_path / "part.parquet", shapes_of([judged])) == 1
    assert PretunedSchedules(tmp_path / "part.parquet").schedule(0).workload_hash == SMALL.workload_hash
    with pytest.raises(PretunedError, match="no program is left that ran"):
        pretune([dataset], tmp_path / "none.parquet", shapes_of([dataset]))


def test_the_same_task_begins_with_its_own_schedule(file, traces):
    assert source(file).starts(SMALL) == [Start(traces[SMALL][1])]


def test_a_new_task_begins_with_adapted_programs_of_the_nearest(file):
    pretuned = source(file)
    assert [parent.task.workload_hash for parent in pretuned.similar(CHILD)] == [
        SMALL.workload_hash,
        LARGE.workload_hash,
    ]
    found = pretuned.starts(CHILD)
    context = make_tune_context(CHILD.mod, TARGET, seed=0, name=CHILD.name)
    assert len({one.trace for one in found}) == 2
    assert all(one.latency_s is None and replay(context, one.trace) is not None for one in found)


def test_a_task_without_a_similar_one_has_no_pretuned_start(file):
    assert source(file).starts(OTHER_CLASS) == []
    # 512 rows: the ranks of (32, 96, 512) are 1, 2, 3, and those of (32, 64, 16) are 2, 3, 1.
    reordered = to_task(Dense(rows=512, in_features=32, out_features=96))
    assert source(file).starts(reordered) == []
    assert len(source(file, similarity=-1.0).starts(reordered)) == 2


def test_programs_of_the_users_database_join_in(file, traces):
    between = to_task(Dense(rows=16, in_features=32, out_features=128))
    own = ReuseParent(between, sampled_traces(between, 1)[0])
    pretuned = PretunedStarts(
        PretunedSchedules(file),
        TARGET,
        ProgramAdapter(TARGET, StockSpace(6000)),
        config=PretunedConfig(programs=1),
        own=lambda: [own],
    )
    assert pretuned.similar(CHILD) == [own]  # of this target; the file's are of another model of device
    assert pretuned.similar(between)[0].task.workload_hash != between.workload_hash


def test_schedules_of_this_model_of_device_come_first(dataset, file, tmp_path, traces):
    here = on(pooled_record(SMALL.workload_hash, traces[SMALL][0], 5e-3), ZEN.replace("znver4", "znver3"))
    both = write_pool(tmp_path / "both", [SMALL], [here])
    pretune([dataset, both], tmp_path / "both.parquet")
    zen3 = parse_target({"kind": "llvm", "mcpu": "znver3", "num-cores": 8})
    assert source(tmp_path / "both.parquet", zen3).exact(SMALL) == traces[SMALL][0]
    zen4 = parse_target({"kind": "llvm", "mcpu": "znver4", "num-cores": 8})
    assert source(tmp_path / "both.parquet", zen4).exact(SMALL) == traces[SMALL][1]


def test_a_file_for_another_kind_of_target_is_refused(file):
    with pytest.raises(PretunedError, match=r"schedules for x86 CPU, and the target is for cuda; .*pretune"):
        source(file, SM_80)


def test_the_shipped_file_has_no_task_of_the_networks_that_benchmarks_are_judged_on():
    shipped = PretunedSchedules(SHIPPED)
    assert len(shipped) > 2000 and SHIPPED.stat().st_size < 4e6
    assert {target_type(name) for name in shipped.targets} == {"x86 CPU"}
    judged = {row.workload_hash for row in RecordStore(ROOT / "data" / "networks").tasks()}
    assert judged.isdisjoint(key.workload_hash for key in shipped.keys)


def test_only_those_who_ask_get_pretuned_starts(tmp_path, file):
    database = TuningDatabase(tmp_path, TARGET, HARDWARE)
    assert asked_starts(OneShotConfig(templates=0), TARGET, HARDWARE, database) == []
    config = OneShotConfig(templates=0, starts="pretuned", pretuned=PretunedConfig(file=str(file)))
    assert len(asked_starts(config, TARGET, HARDWARE, database)) == 1
    assert OneShotConfig.from_json(asdict(config)) == config


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OneShotConfig(starts="tuned"), r"search\.starts=tuned: use one of known, pretuned"),
        (lambda: PretunedConfig(similarity=2.0), r"search\.pretuned\.similarity=2\.0"),
        (lambda: PretunedConfig(programs=0), r"search\.pretuned\.programs=0"),
    ],
)
def test_settings_that_cannot_be_are_named(make, message):
    with pytest.raises(OneShotConfigError, match=message):
        make()


def test_a_folder_without_a_dataset_is_named(tmp_path):
    with pytest.raises(StoreError, match="has no dataset"):
        pretune([tmp_path], tmp_path / "none.parquet")
    with pytest.raises(ValueError, match=r"dataset=\[\]"):
        PretuneConfig([], tmp_path)


def test_a_search_measures_its_pretuned_starts_first(tmp_path, file):
    config = OneShotConfig(
        {"name": "evolutionary", "population_size": 16, "generations": 1},
        top_k=3,
        rounds=1,
        processes=0,
        finalists=0,
        templates=0,
        starts="pretuned",
        pretuned=PretunedConfig(file=str(file), programs=2),
    )
    database = TuningDatabase(tmp_path, TARGET, HARDWARE)
    tuner = network_tuner(
        config,
        FakeExecutor(),
        start_searchers(config, TARGET, None, HARDWARE),
        database,
        start_sources=asked_starts(config, TARGET, HARDWARE, database),
    )
    tuner.tune([CHILD], [1.0])
    assert tuner.starts_measured == (2, 0)
