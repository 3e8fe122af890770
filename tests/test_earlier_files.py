"""Files of earlier states of the code: datasets, checkpoints, a tuning database, a bundle, and public names.

`support/earlier` was written before the packages were reordered: three schedules of a small dense layer.
"""

import zipfile
from collections import Counter

import foretune.inference
import pytest
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.hardware import Hardware
from foretune.dataset.records.store import RecordStore
from foretune.dataset.records.stored_tasks import stored_task
from foretune.inference.bundle.format import MANIFEST_FILE, read_bundle
from foretune.inference.database.tuning_database import TuningDatabase
from foretune.models.checkpoints.checkpoint import load_network
from support.paths import ROOT, TESTS

EARLIER = TESTS / "support" / "earlier"
BUNDLE = EARLIER / "dense.zip"
FOLDER = "llvm-fdf37f25d1f7"
TARGET = {"kind": "llvm", "mcpu": "znver4", "num-cores": 2}
DEVICE = Hardware("Made-up CPU", "cpu", 2, 2.5, 512, 32768, 1 << 20, 1 << 24, 100.0, 20.0)
LATENCIES_S = [3e-6, 4e-6, 5e-6]
CHECKPOINTS = sorted(path.parent.name for path in (ROOT / "checkpoints").glob("*/card.json"))


# networks has shards of schema 2, cpu-int8 of schema 3.
@pytest.mark.parametrize(("name", "records"), [("networks", 2458), ("cpu-int8", 1648)])
def test_a_dataset_is_read(name, records):
    store = RecordStore(ROOT / "data" / name).require_intact()
    tasks = {row.workload_hash: row for row in store.tasks()}
    found = Counter(record.workload_hash for record in store.records())
    assert found.total() == records
    assert set(found) <= set(tasks)
    assert {record.hardware_id for record in store.records(list(found)[:1])} <= set(store.hardware())
    row = tasks[found.most_common(1)[0][0]]
    assert stored_task(row).workload_hash == row.workload_hash


def test_all_checkpoints_are_tested():
    assert {"cpu", "cpu-draft", "cpu-explorer", "cuda"} <= set(CHECKPOINTS)


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_checkpoint_is_loaded(name):
    stored = load_network(name)
    assert (stored.predictor is None) == (stored.explorer is not None)
    assert all(bool(weights.isfinite().all()) for weights in stored.network.state_dict().values())


@pytest.fixture
def database(tmp_path):
    """Folder of the tuning database; its tasks and records are members of the bundle, too."""
    folder = tmp_path / FOLDER
    folder.mkdir()
    for path in EARLIER.glob("*.json"):
        (folder / path.name).write_bytes(path.read_bytes())
    with zipfile.ZipFile(BUNDLE) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name != MANIFEST_FILE])
    return tmp_path


def test_a_tuning_database_is_read(database):
    before = {path.name for path in database.iterdir()}
    found = TuningDatabase(database, parse_target(TARGET), DEVICE)
    assert {path.name for path in database.iterdir()} == before
    task = to_task(Dense.examples()[0])
    assert sorted(found.latencies_s(task).values()) == pytest.approx(LATENCIES_S)
    assert found.best_latency_s(task) == pytest.approx(LATENCIES_S[0])
    assert found.rounds_of_unfinished(task) == 1
    assert [other.workload_hash for other in found.other_tasks(())] == [task.workload_hash]


def test_a_bundle_is_read():
    bundle = read_bundle(BUNDLE)
    (task,) = bundle.manifest.tasks
    assert (task.workload_hash, task.records) == (to_task(Dense.examples()[0]).workload_hash, 3)
    assert (task.rounds, task.rounds_of) == (1, 2)
    assert bundle.manifest.hardware == DEVICE
    assert sorted(record.latency_s for record in bundle.records) == pytest.approx(LATENCIES_S)


PUBLIC_NAMES = """
FamilyCostModel FamilyTaskScheduler OneShotConfig OneShotStrategy PretrainedCostModel StopConfig TaskResult
TuneResult export_bundle import_bundle improve_code load prepare_builder read_bundle register_intrinsics
tune_network tune_tasks
"""


def test_the_public_names_of_inference_stay():
    names = PUBLIC_NAMES.split()
    assert set(names) <= set(foretune.inference.__all__)
    assert all(getattr(foretune.inference, name) is not None for name in names)
