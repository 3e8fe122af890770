"""Bundles of real schedules: exported, imported, tuned with, and refused where they do not belong."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import tvm
from foretune.compiler.networks.alternatives.call_chains import call_chains
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.task import Task
from foretune.compiler.templates.gpu.function import KERNELS
from foretune.compiler.tvm_compat import parse_target, target_to_json
from foretune.dataset.hardware import Hardware
from foretune.dataset.measure import MeasureOutcome
from foretune.dataset.records.database_lines import RECORD_FILE, StoredRecord
from foretune.dataset.records.schema import FailureKind
from foretune.inference import export_bundle, import_bundle, read_bundle
from foretune.inference.bundle import exporting, importing
from foretune.inference.bundle.archive import BundleError
from foretune.inference.bundle.format import Bundle, write_bundle
from foretune.inference.bundle.reading import KINDS
from foretune.inference.database.fastest_template import FastestTemplate, read_template, template_note
from foretune.inference.database.folder import (
    DEVICE_FILE,
    STARTS_FILE,
    TEMPLATES_FILE,
    DatabaseInUseError,
    append_notes,
    describe_device,
    read_notes,
)
from foretune.inference.database.predicted_schedules import PredictedSchedules
from foretune.inference.database.stored_kernel_times import StoredKernelTimes
from foretune.inference.database.tuning_database import MissingScheduleError, TuningDatabase, folder_of
from foretune.inference.search.candidate import record_json
from foretune.inference.search.config import OneShotConfig
from foretune.inference.workers.searchers import start_searchers
from support.checkpoints import candidates_of
from support.fake_executor import HARDWARE, FakeExecutor
from support.gpu_networks import TARGET as GPU
from support.gpu_networks import lowered, made_template
from support.searchers import network_tuner
from support.template_text import TILING, emulated
from tvm import te
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import InstructionKind

TARGET = parse_target({"kind": "llvm", "num-cores": 2})
OTHER_TARGET = {"kind": "llvm", "num-cores": 4}
GPU_HARDWARE = replace(HARDWARE, kind="cuda")
OTHER_HARDWARE = replace(HARDWARE, name="other device", cores=4)
TASKS = [
    to_task(Dense(rows=16, in_features=64, out_features=64, epilogue="bias")),
    to_task(Dense(rows=8, in_features=32, out_features=32)),
]
CONFIG = OneShotConfig(
    {"name": "evolutionary", "population_size": 8, "generations": 1},
    top_k=4,
    rounds=1,
    processes=0,
    finalists=0,
)


def tune(root: Path, answer=None, hardware: Hardware = HARDWARE, target=TARGET):
    """Tunes TASKS by real searches and made-up latencies, each program faster than the one before."""
    seconds = iter(1e-3 / n for n in range(1, 1000))
    executor = FakeExecutor(answer or (lambda job: MeasureOutcome((next(seconds),))))
    database = TuningDatabase(root, target, hardware)
    tuner = network_tuner(CONFIG, executor, start_searchers(CONFIG, target, None, hardware), database)
    results = tuner.tune(TASKS, [1.0] * len(TASKS))
    return results, executor.asked, database.folder, tuner


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """Root and folder of a database with both tasks."""
    root = tmp_path_factory.mktemp("tuned")
    results, asked, folder, _ = tune(root)
    assert [result.candidates_measured for result in results] == [4, 4] and len(asked) == 8
    return root, folder


@pytest.fixture(scope="module")
def bundles(tuned, tmp_path_factory):
    """A bundle with the best schedules, and one with all."""
    folder = tmp_path_factory.mktemp("bundles")
    for records in ("best", "all"):
        export_bundle(folder / f"{records}.zip", tuned[0], records=records)
    return folder


@pytest.fixture
def device(tmp_path):
    """Files that describe this device and another one."""
    for name, hardware in (("here", HARDWARE), ("gpu", GPU_HARDWARE), ("other", OTHER_HARDWARE)):
        (tmp_path / f"{name}.json").write_text(hardware.to_json())
    return lambda name: str(tmp_path / f"{name}.json")


def latencies(root: Path, task: Task) -> dict[str, float]:
    return TuningDatabase(root, TARGET, HARDWARE).latencies_s(task)


def rewritten(path: Path, into: Path, **changes) -> Path:
    """A bundle with another manifest or other records, whose hash is right."""
    bundle = read_bundle(path)
    records = changes.pop("records", bundle.records)
    write_bundle(into, Bundle(replace(bundle.manifest, **changes), bundle.workloads, records))
    return into


# --- the same device


@pytest.mark.parametrize("records", ["best", "all"])
def test_a_machine_of_the_same_kind_measures_nothing_after_an_import(
    tuned, bundles, device, tmp_path, records
):
    report = import_bundle(bundles / f"{records}.zip", tmp_path / "second", hardware=device("here"))
    assert report.folder.name == tuned[1].name and not report.adapted
    assert report.outcomes == {"added": 2}
    assert [task.schedules for task in report.tasks] == ([1, 1] if records == "best" else [4, 4])
    results, asked, _, _ = tune(tmp_path / "second")
    assert asked == []
    assert all(result.from_database and result.candidates_measured == 0 for result in results)
    for task, result in zip(TASKS, results, strict=True):
        before, after = latencies(tuned[0], task), latencies(tmp_path / "second", task)
        assert min(before.values()) == min(after.values()) == result.tuned_latency_s
        assert after == (before if records == "all" else {min(before, key=before.get): min(before.values())})


def test_tasks_without_a_schedule_move_with_their_reasons(device, tmp_path):
    """A bundle may hold nothing else."""
    database = TuningDatabase(tmp_path / "first", TARGET, HARDWARE)
    database.notes.note_ended(TASKS[0], "untuned is faster")
    database.notes.note_untuned(TASKS[0], 1e-3)
    database.notes.note_left(TASKS[1], "no candidate ran")
    database.require(TASKS)
    written = export_bundle(tmp_path / "a.zip", tmp_path / "first").bundle
    assert [note.decided for note in written.manifest.decided] == ["untuned is faster", "no candidate ran"]
    report = import_bundle(tmp_path / "a.zip", tmp_path / "second", hardware=device("here"))
    assert report.outcomes == {"untuned": 2}
    assert [task.name for task in report.tasks] == [task.name for task in TASKS]
    second = TuningDatabase(tmp_path / "second", TARGET, HARDWARE)
    second.require(TASKS)
    assert second.network_latency_s(TASKS[0].workload_hash) == 1e-3
    other = import_bundle(tmp_path / "a.zip", tmp_path / "third", hardware=device("other"), adapt=True)
    assert other.outcomes == {}  # elsewhere, another program may be faster
    with pytest.raises(MissingScheduleError):
        TuningDatabase(tmp_path / "third", TARGET, OTHER_HARDWARE).require(TASKS)


def test_predicted_schedules_move_with_the_decisions_of_their_runs(device, tmp_path):
    """Also if the task has no measured schedule; a prediction that is there stays."""
    first = TuningDatabase(tmp_path / "first", TARGET, HARDWARE)
    predicted = PredictedSchedules(first.folder, TARGET)
    (task, left), (_, programs) = TASKS, candidates_of(TASKS[0], 2)
    predicted.commit(task, record_json(programs[0].sch.trace))
    predicted.notes.note_left(left, "no candidate was found")
    first.require(TASKS, predicted)
    written = export_bundle(tmp_path / "a.zip", tmp_path / "first").bundle
    assert [(entry.records, entry.latency_s) for entry in written.manifest.tasks] == [(0, None)]
    assert [note.left for note in written.manifest.predicted_notes] == ["no candidate was found"]
    report = import_bundle(tmp_path / "a.zip", tmp_path / "second", hardware=device("here"))
    assert report.outcomes == {"predicted": 1}
    second = TuningDatabase(tmp_path / "second", TARGET, HARDWARE)
    with pytest.raises(MissingScheduleError, match="2 of 2 tasks have none"):
        second.require(TASKS)  # of a run that measures
    moved = PredictedSchedules(second.folder, TARGET, read_only=True)
    second.require(TASKS, moved)
    assert moved.stored()[task.workload_hash][1].content == predicted.stored()[task.workload_hash][1].content
    own = PredictedSchedules(TuningDatabase(tmp_path / "third", TARGET, HARDWARE).folder, TARGET)
    own.commit(task, record_json(programs[1].sch.trace))
    import_bundle(tmp_path / "a.zip", tmp_path / "third", hardware=device("here"))
    kept = PredictedSchedules(own.folder.parent, TARGET).stored()[task.workload_hash][1]
    assert kept.content[0] == json.loads(record_json(programs[1].sch.trace))
    other = import_bundle(tmp_path / "a.zip", tmp_path / "third", hardware=device("other"), adapt=True)
    assert other.outcomes == {"left out": 1}


def test_gpu_templates_move_and_the_faster_one_stays(device, tmp_path):
    _, mod, _ = lowered("layer")
    attention = call_chains(mod)[0]
    template = made_template(attention.function, attention.match, lambda problem: emulated(problem, TILING))
    slow, fast = (replace(template, latency_s=seconds) for seconds in (3e-6, 2e-6))
    none = FastestTemplate(math.inf, "", "")
    notes = {
        "first": {attention.workload: [slow, fast], "00": [none]},
        "slower": {attention.workload: [slow], "01": [none]},
    }
    for name, of in notes.items():
        lines = [template_note(key, one) for key, found in of.items() for one in found]
        append_notes(TuningDatabase(tmp_path / name, GPU, GPU_HARDWARE).folder / TEMPLATES_FILE, lines)
    written = export_bundle(tmp_path / "a.zip", tmp_path / "first").bundle
    assert len(written.templates) == 2  # the last line on each
    report = import_bundle(tmp_path / "a.zip", tmp_path / "slower", hardware=device("gpu"))
    (row,) = report.tasks
    assert (row.name, row.outcome, row.before_s, row.latency_s) == (template.title, "improved", 3e-6, 2e-6)
    known = dict(read_notes(report.folder / TEMPLATES_FILE, read_template))
    assert known == {attention.workload: fast, "00": none, "01": none}
    again = import_bundle(tmp_path / "a.zip", tmp_path / "slower", hardware=device("gpu"))
    assert again.outcomes == {"kept": 1}


def test_times_of_kernels_for_dynamic_shapes_move_without_schedules(device, tmp_path):
    """A folder with such times alone is exported, and times of the destination stay."""
    described = tmp_path / "tuned" / folder_of(tmp_path, TARGET, HARDWARE).name
    described.mkdir(parents=True)
    describe_device(described, target_to_json(TARGET), HARDWARE)
    names = ["0" * 16, "1" * 16]
    StoredKernelTimes(described, tvm.__version__).add(dict(zip(names, (1e-3, 2e-3), strict=True)))
    StoredKernelTimes(described, "0.1").add({"2" * 16: 1e-3})  # of another TVM
    written = export_bundle(tmp_path / "a.zip", tmp_path / "tuned").bundle
    assert len(read_bundle(tmp_path / "a.zip").kernels) == len(written.kernels) == 2
    own = StoredKernelTimes(folder_of(tmp_path / "other", TARGET, HARDWARE), tvm.__version__)
    own.add({names[0]: 5e-3})
    outcomes = []
    for _ in range(2):
        report = import_bundle(tmp_path / "a.zip", tmp_path / "other", hardware=device("here"))
        outcomes += [(row.name, row.outcome, row.schedules) for row in report.tasks]
    assert outcomes == [("dynamic shapes", "added", 1), ("dynamic shapes", "kept", 0)]
    known = StoredKernelTimes(report.folder, tvm.__version__)
    assert [known.latency_s(name) for name in names] == [5e-3, 2e-3]


def test_a_template_that_does_more_than_launch_its_kernels_is_left_out(device, tmp_path):
    """Such a function could call any other one of the process."""
    _, mod, _ = lowered("layer")
    attention = call_chains(mod)[0]
    template = made_template(attention.function, attention.match, lambda problem: emulated(problem, TILING))
    function = template.function
    kernels = function.attrs[KERNELS]
    other = te.create_prim_func([te.placeholder([4], name="a")])
    changed = [
        (function.with_attr("tirx.is_host_func", True), "its function has other kernels or attributes"),
        (function.with_attr(KERNELS, kernels.replace("foretune_att", "evil_att")), "its function has other"),
        (function.with_attr(KERNELS, "[]"), 'its function calls "foretune_attention_'),
        (other.with_attr(KERNELS, kernels), "its function is not only a launch"),
    ]
    for number, (function, reason) in enumerate(changed):
        module = tvm.ir.save_json(tvm.IRModule({"main": function}))
        note = template_note(attention.workload, replace(template, module=module))
        root, path, warned = tmp_path / str(number), tmp_path / f"{number}.zip", []
        append_notes(TuningDatabase(root, GPU, GPU_HARDWARE).folder / TEMPLATES_FILE, [note])
        export_bundle(path, root)
        report = import_bundle(path, tmp_path / "b", hardware=device("gpu"), warn=warned.append)
        assert report.outcomes == {} and len(warned) == 1
        assert warned[0].startswith(f"template {template.title}: left out, {reason}")


def test_stock_tvm_compiles_from_an_imported_folder(tuned, bundles, device, tmp_path):
    report = import_bundle(bundles / "best.zip", tmp_path, hardware=device("here"))
    first, second = (ms.database.JSONDatabase(work_dir=str(folder)) for folder in (tuned[1], report.folder))
    assert len(second) == 2
    for task in TASKS:
        best = [database.query_tuning_record(task.mod, TARGET, "main") for database in (first, second)]
        assert list(map(float, best[0].run_secs)) == list(map(float, best[1].run_secs))
        assert str(best[0].trace) == str(best[1].trace)


def test_an_import_keeps_what_is_faster(tuned, bundles, device, tmp_path):
    import_bundle(bundles / "best.zip", tmp_path, hardware=device("here"))
    faster = [rated(record, 0.5) for record in read_bundle(bundles / "best.zip").records[:1]]
    path = rewritten(bundles / "best.zip", tmp_path / "faster.zip", records=faster)
    before = latencies(tmp_path, TASKS[0])
    report = import_bundle(path, tmp_path, hardware=device("here"))
    after = latencies(tmp_path, TASKS[0])
    first = report.tasks[0]
    assert (first.outcome, first.schedules) == ("improved", 1)
    assert (first.before_s, first.latency_s) == (min(before.values()), min(after.values()))
    assert list(after.values()) == [0.5 * latency_s for latency_s in before.values()]
    again = import_bundle(bundles / "all.zip", tmp_path, hardware=device("here"))
    assert again.outcomes == {"kept": 2}
    assert latencies(tmp_path, TASKS[0]) == {**latencies(tuned[0], TASKS[0]), **after}


def rated(record: StoredRecord, factor: float) -> StoredRecord:
    """A record with another latency."""
    trace, seconds, *rest = record.content
    return StoredRecord(
        record.workload, record.latency_s * factor, [trace, [s * factor for s in seconds], *rest]
    )


def test_a_schedule_that_does_not_apply_is_left_out_and_counted(bundles, device, tmp_path):
    first, second = read_bundle(bundles / "best.zip").records
    swapped = [first, StoredRecord(second.workload, second.latency_s, [["?"] * 2, *second.content[1:]])]
    path = rewritten(bundles / "best.zip", tmp_path / "a.zip", records=swapped)
    told = []
    report = import_bundle(path, tmp_path / "db", hardware=device("here"), warn=told.append)
    assert report.outcomes == {"added": 1, "left out": 1}
    assert [task.left_out for task in report.tasks] == [0, 1]
    assert len(told) == 1 and report.tasks[1].name in told[0]
    assert TuningDatabase(tmp_path / "db", TARGET, HARDWARE).best_latency_s(TASKS[1]) is None


@pytest.mark.parametrize("adapt", [False, True])
@pytest.mark.parametrize(
    ("instruction", "named"),
    [
        (["Annotate", ["b0", '"declare void @f()"'], ["pragma_import_llvm"], []], "pragma_import_llvm"),
        (["UnsafeHideBufferAccess", ["b0", '"read"', [0]], [], []], "UnsafeHideBufferAccess"),
    ],
)
def test_a_schedule_with_code_of_its_own_is_left_out(bundles, device, tmp_path, instruction, named, adapt):
    first, second = read_bundle(bundles / "best.zip").records
    (instructions, decisions), *rest = second.content
    changed = [[[*instructions, instruction], decisions], *rest]
    records = [first, StoredRecord(second.workload, second.latency_s, changed)]
    path = rewritten(bundles / "best.zip", tmp_path / "a.zip", records=records)
    told = []
    here = device("other" if adapt else "here")
    report = import_bundle(path, tmp_path / "db", hardware=here, adapt=adapt, warn=told.append)
    assert [task.left_out for task in report.tasks] == [0, 1]
    assert len(told) == 1 and report.tasks[1].name in told[0] and named in told[0]


def test_every_instruction_of_a_schedule_is_known_to_tvm():
    for kind in KINDS:
        assert InstructionKind.get(kind).name == kind


def test_a_folder_in_use_and_a_damaged_bundle_leave_the_database_as_it_was(bundles, device, tmp_path):
    run = TuningDatabase(tmp_path / "db", TARGET, HARDWARE)
    before = sorted((path.name, path.read_bytes()) for path in run.folder.iterdir())
    with pytest.raises(DatabaseInUseError, match="a run is tuning into it"):
        import_bundle(bundles / "best.zip", tmp_path / "db", hardware=device("here"))
    (tmp_path / "torn.zip").write_bytes((bundles / "best.zip").read_bytes()[:-100])
    with pytest.raises(BundleError, match=r"torn\.zip: truncated or damaged"):
        import_bundle(tmp_path / "torn.zip", tmp_path / "db", hardware=device("here"))
    assert sorted((path.name, path.read_bytes()) for path in run.folder.iterdir()) == before


# --- another device, target, TVM


def test_another_device_is_refused_unless_its_schedules_are_starting_points(bundles, device, tmp_path):
    path = bundles / "best.zip"
    told = r"measured on fake device \(2 cores.*other device with 4 cores.*adapt=true"
    with pytest.raises(BundleError, match=told):
        import_bundle(path, tmp_path / "db", hardware=device("other"), target=TARGET)
    assert not (tmp_path / "db").exists()
    report = import_bundle(path, tmp_path / "db", hardware=device("other"), target=OTHER_TARGET, adapt=True)
    assert report.adapted and report.outcomes == {"starts": 2}
    assert [(task.schedules, task.left_out, task.latency_s) for task in report.tasks] == [(1, 0, None)] * 2
    target = parse_target(OTHER_TARGET)
    assert len(ms.database.JSONDatabase(work_dir=str(report.folder))) == 0
    assert TuningDatabase(tmp_path / "db", target, OTHER_HARDWARE).folder == report.folder

    results, asked, _, tuner = tune(tmp_path / "db", hardware=OTHER_HARDWARE, target=target)
    assert tuner.starts_measured == (2, 0)
    assert [result.candidates_measured for result in results] == [4, 4]
    starts = [json.loads(line) for line in (report.folder / STARTS_FILE).read_text().splitlines()]
    database = TuningDatabase(tmp_path / "db", target, OTHER_HARDWARE)
    for task, start in zip(TASKS, starts, strict=True):
        measured = database.latencies_s(task)
        assert start["trace"] == max(measured, key=measured.get)  # each is faster than the one before
    tuned_again, asked, _, _ = tune(tmp_path / "db", hardware=OTHER_HARDWARE, target=target)
    assert asked == [] and all(result.from_database for result in tuned_again)


def test_starting_points_that_do_not_run_here_are_counted(bundles, device, tmp_path):
    import_bundle(bundles / "best.zip", tmp_path, hardware=device("other"), target=TARGET, adapt=True)
    seen = []

    def answer(job):
        seen.append(job)
        failed = len(seen) == 1
        return MeasureOutcome(failure=FailureKind.RUN_ERROR) if failed else MeasureOutcome((1e-3,))

    results, _, _, tuner = tune(tmp_path, answer, OTHER_HARDWARE)
    assert tuner.starts_measured == (2, 1)
    assert sum(result.candidates_failed for result in results) == 1


def test_starting_points_are_kept_once(bundles, device, tmp_path):
    for name in ("best", "best", "all"):
        report = import_bundle(
            bundles / f"{name}.zip", tmp_path, hardware=device("other"), target=TARGET, adapt=True
        )
    lines = (report.folder / STARTS_FILE).read_text().splitlines()
    assert len(lines) == len(set(lines)) == 8


def test_a_program_that_another_target_rejects_is_left_out(bundles, device, tmp_path, monkeypatch):
    monkeypatch.setattr(importing, "replay", lambda context, trace: None)
    report = import_bundle(
        bundles / "all.zip", tmp_path, hardware=device("other"), target=TARGET, adapt=True, warn=str
    )
    assert report.outcomes == {"left out": 2}
    assert [task.left_out for task in report.tasks] == [4, 4]


def test_another_tvm_is_refused_unless_its_schedules_are_starting_points(bundles, device, tmp_path):
    versions = {"foretune": "0.0.9", "tvm": "0.26.0"}
    path = rewritten(bundles / "best.zip", tmp_path / "a.zip", versions=versions)
    with pytest.raises(BundleError, match=r"measured with TVM 0\.26\.0 \(here .*adapt=true"):
        import_bundle(path, tmp_path / "db", hardware=device("here"))
    report = import_bundle(path, tmp_path / "db", hardware=device("here"), target=TARGET, adapt=True)
    assert report.outcomes == {"starts": 2}


def test_adapting_to_the_same_device_takes_the_latencies(bundles, device, tmp_path):
    report = import_bundle(bundles / "best.zip", tmp_path, hardware=device("here"), adapt=True)
    assert report.outcomes == {"added": 2} and not report.adapted


def test_another_kind_of_target_is_refused(bundles, device, tmp_path):
    for adapt in (False, True):
        with pytest.raises(BundleError, match="its target is llvm, and target=cuda runs other programs"):
            import_bundle(
                bundles / "best.zip", tmp_path, target="nvidia/nvidia-a100", hardware="a100", adapt=adapt
            )
    path = rewritten(
        bundles / "best.zip", tmp_path / "a.zip", target={"kind": "cuda", "arch": "sm_80", "tag": ""}
    )
    with pytest.raises(BundleError, match=r"a\.zip: its target is cuda: .* cannot run programs"):
        import_bundle(path, tmp_path, hardware=device("here"))


# --- exports


def test_a_bundle_tells_what_it_holds(tuned, bundles):
    bundle = read_bundle(bundles / "all.zip")
    assert json.loads(bundle.target_json) == bundle.manifest.target == json.loads(str(TARGET))
    assert bundle.manifest.hardware == HARDWARE
    first, second = bundle.manifest.tasks
    assert (first.operator, first.settings["out_features"], first.records) == ("dense", 64, 4)
    assert first.latency_s == min(latencies(tuned[0], TASKS[0]).values())
    assert (second.rounds, second.rounds_of) == (1, 1)


def test_a_network_exports_its_own_tasks_and_names_those_without_a_schedule(tuned, tmp_path, monkeypatch):
    unknown = replace(TASKS[0], name="unknown", mod=to_task(Dense(rows=2, in_features=8, out_features=8)).mod)
    wanted = [replace(TASKS[1], name="fused_matmul"), unknown]
    monkeypatch.setattr(exporting, "load_network", lambda name, **options: name)

    def used(*given):
        tasks = {task.workload_hash: task for task in wanted}
        return exporting._Wanted(tasks, {*tasks})

    monkeypatch.setattr(exporting._Wanted, "of", used)
    report = export_bundle(tmp_path / "a.zip", tuned[0], network="net")
    assert report.missing == ["unknown"]
    assert [task.name for task in report.bundle.manifest.tasks] == ["fused_matmul"]
    assert report.bundle.manifest.network == "net" and len(read_bundle(tmp_path / "a.zip").records) == 1
    wanted[0] = unknown
    with pytest.raises(BundleError, match="has no schedule of a task of network=net; tune it first"):
        export_bundle(tmp_path / "b.zip", tuned[0], network="net")


def test_one_of_several_folders_is_chosen(tmp_path):
    with pytest.raises(BundleError, match="holds no schedules; tune first"):
        export_bundle(tmp_path / "a.zip", tmp_path / "nothing")
    folders = [tune(tmp_path / "db", hardware=hardware)[2] for hardware in (HARDWARE, OTHER_HARDWARE)]
    with pytest.raises(BundleError, match=r"of 2 targets and devices; choose one, as in folder=.*other"):
        export_bundle(tmp_path / "a.zip", tmp_path / "db")
    with pytest.raises(BundleError, match=r"folder=llvm-0: is not in .*; choose one of llvm-"):
        export_bundle(tmp_path / "a.zip", tmp_path / "db", folder="llvm-0")
    report = export_bundle(tmp_path / "a.zip", tmp_path / "db", folder=folders[1].name)
    assert report.bundle.manifest.hardware == OTHER_HARDWARE
    with pytest.raises(BundleError, match="records=some: use one of best, all"):
        export_bundle(tmp_path / "b.zip", tmp_path / "db", records="some")


def test_a_folder_of_an_earlier_version_is_exported_where_it_was_tuned(tmp_path, monkeypatch):
    _, _, folder, _ = tune(tmp_path / "db")
    (folder / DEVICE_FILE).unlink()
    monkeypatch.setattr(exporting, "find_hardware", lambda name, target: HARDWARE)
    assert export_bundle(tmp_path / "a.zip", tmp_path / "db").bundle.manifest.hardware == HARDWARE
    monkeypatch.setattr(exporting, "find_hardware", lambda name, target: OTHER_HARDWARE)
    with pytest.raises(BundleError, match="does not name its device"):
        export_bundle(tmp_path / "b.zip", tmp_path / "db")


def test_broken_and_foreign_lines_are_told_and_left_out(tmp_path):
    _, _, folder, _ = tune(tmp_path / "db")
    lines = (folder / RECORD_FILE).read_text().splitlines()
    index, content = json.loads(lines[0])
    content[2] = {**content[2], "num-cores": 8}
    with (folder / RECORD_FILE).open("a") as file:
        file.write("{}\n" + json.dumps([index, content]) + "\n" + lines[0][:100])
    told = []
    report = export_bundle(tmp_path / "a.zip", tmp_path / "db", records="all", warn=told.append)
    assert len(report.bundle.records) == 8
    assert ["line 9: no record" in told[0], "line 10: it is for another target" in told[1]] == [True, True]
    assert len(told) == 2
