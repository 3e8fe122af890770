"""Study of held-out devices: the choice of records, the inputs by hand, and that no model sees the device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from foretune.dataset.features.draft_vector import (
    BALANCE,
    BAND_BYTES,
    DRAFT_DIM,
    FILLED,
    INNERMOST,
    LANES,
    PARALLEL,
)
from foretune.dataset.features.table import FeatureTable, draft_table
from foretune.dataset.features.vectors import TASK_DIM
from foretune.dataset.hardware import Hardware
from foretune.dataset.records.schema import FailureKind
from foretune.dataset.records.store import RecordStore
from foretune.models.scaling.target import TargetConfig
from support.records import HARDWARE, record, task_row
from support.synthetic import dataset

from benchmarks.devices import records, study
from benchmarks.devices.agreement import agreements
from benchmarks.devices.inputs import INPUTS, interactions, least_over_reference, with_inputs
from benchmarks.devices.records import Programs, chosen_rows, measured, splits_vectors, write_chosen
from benchmarks.devices.study import Fit, errors, fits, metrics, parts
from benchmarks.tables.devices import by_part, gains, held_out
from benchmarks.tables.reading import Result

FAST = Hardware("fast", "cpu", 4, 2.0, 512, 2**15, 2**20, 2**25, 4000.0, 40.0)
PAST_L3 = 8 + 6 + 8 * 10 + 4 * 4
"""Column of the bytes that the first access fetches past the last cache."""
SLOW = Hardware("slow", "cpu", 1, 2.0, 128, 2**14, 2**19, 2**24, 1000.0, 10.0)


def test_devices_have_equally_many_tasks_and_common_ones_come_first():
    # Device a has 4 tasks, one of them with a single program; device b has 2. Both measured the task "both".
    measured = {
        ("a", "both"): 6,
        ("a", "p"): 6,
        ("a", "q"): 6,
        ("a", "few"): 1,
        ("b", "both"): 2,
        ("b", "r"): 9,
    }
    devices = np.array([device for (device, _), count in measured.items() for _ in range(count)], object)
    names = np.array([name for (_, name), count in measured.items() for _ in range(count)], object)
    rows = chosen_rows(devices, names, None, 4)
    chosen: dict[tuple[str, str], int] = {}
    for pair in zip(devices[rows], names[rows], strict=True):
        chosen[pair] = chosen.get(pair, 0) + 1
    assert chosen.pop(("a", "both")) == 4 and chosen.pop(("b", "both")) == 2
    assert chosen.pop(("b", "r")) == 4
    assert len(chosen) == 1 and set(chosen) < {("a", "p"), ("a", "q")} and set(chosen.values()) == {4}
    assert len(chosen_rows(devices, names, 1, 2)) == 4


def test_the_store_of_the_study_has_programs_that_ran_and_their_devices(tmp_path, monkeypatch):
    reference = replace(HARDWARE, name="reference")
    monkeypatch.setattr(records, "REFERENCE", reference.hardware_id)
    # The task takes 1 ms at 200 GFLOP/s on a device with a measured peak of 100 GFLOP/s.
    task = replace(task_row(), settings='{"dtype": "float32"}', flops=2e8)
    one, other = RecordStore(tmp_path / "one"), RecordStore(tmp_path / "other")
    failed = record(8, run_secs=(), failure=FailureKind.RUN_ERROR)
    for source, device in ((one, HARDWARE), (other, replace(HARDWARE, bandwidth_gbs=30.0))):
        with source.writing():
            source.append_tasks([task, task_row("unmeasured")])
            source.append_records(
                [record(), record(1), record(2), failed, replace(record(9), simulated=True)]
            )
            source.put_hardware(device)
            source.put_hardware(reference)
    store = RecordStore(tmp_path / "study")
    write_chosen(measured([one, other]), [one, other], store, None, 2)
    assert len(store.records()) == len({found.trace for found in store.records()}) == 2
    assert {found.round for found in store.records()} < {0, 1, 2}
    assert [row.workload_hash for row in store.tasks()] == ["t0"]
    described = store.hardware()
    assert set(described) == {HARDWARE.hardware_id, reference.hardware_id}
    assert described[HARDWARE.hardware_id].bandwidth_gbs == 30.0
    assert described[HARDWARE.hardware_id].peak_gflops == pytest.approx(200.0)
    assert described[reference.hardware_id].peak_gflops == 100.0


def table_of(hardware: Hardware, n: int = 2) -> FeatureTable:
    """Equal programs of a task of 10^12 operations and 10^10 bytes."""
    task = np.zeros((n, TASK_DIM + DRAFT_DIM), np.float32)
    task[:, 46:48] = np.log2(1 + np.array([1e12, 1e10]))
    draft = task[:, TASK_DIM:]
    draft[:, BAND_BYTES[0]] = np.log2(1 + 2**14)
    draft[:, [PARALLEL, LANES, INNERMOST]] = np.log2(1 + np.array([8, 16, 32]))
    draft[:, [BALANCE, FILLED]] = [2.0, 0.5]
    draft[:, PAST_L3] = np.log2(1 + 3e9)
    return draft_table(task, np.repeat(hardware.features()[None], n, axis=0))


def test_early_programs_with_split_vectors_are_outdated():
    drafts = np.zeros((4, DRAFT_DIM), np.float32)
    drafts[:, LANES] = np.log2(1 + np.array([24, 24, 32, 6]))
    assert splits_vectors(drafts, np.array([16, 32, 16, 4])).tolist() == [True, False, False, True]


def test_interactions_by_hand():
    made = interactions(table_of(SLOW))
    assert made.shape == (2, 33) and made.dtype == np.float32
    assert made[0, [0, 8, 16]] == pytest.approx([0, -5, -10], abs=1e-3)  # bytes of a band, by cache
    assert made[0, 24:26] == pytest.approx(np.log2([17 * 32 / 129, 33 * 32 / 129]), abs=1e-3)
    assert made[0, 26] == pytest.approx(np.log2(9 / 2), abs=1e-3)  # parallel iterations, cores
    # The task takes 1 s of arithmetic and of memory. A busy core has twice the mean, half of a register is
    # filled. The program fetches 3 GB at 10 GB/s past the last cache, and nothing past the others.
    assert 2.0 ** made[0, 27] == pytest.approx(1.0, rel=1e-3)
    assert 2.0 ** made[0, 28] == pytest.approx(4.0, rel=1e-3)
    assert 2.0 ** made[0, 31] == pytest.approx(0.3, rel=1e-3)
    assert made[0, 32] == made[0, 28] and made[0, 29] == made[0, 30] < made[0, 31]


def programs_of() -> Programs:
    """Four tasks on two devices; the slow one takes four times as long for each program."""
    data = dataset(tasks=4, per_task=6)
    fast = np.arange(len(data)) % 2 == 0
    own, reference = table_of(SLOW, len(data)), table_of(FAST, len(data))
    hardware = np.where(fast[:, None], FAST.features(), SLOW.features())
    latency_s = np.tile([1.0, 4.0], len(data) // 2) * np.repeat(np.arange(1.0, len(data) // 2 + 1), 2)
    data = replace(
        data,
        latency_s=latency_s,
        features=replace(own, hardware=hardware),
        hardware_id=np.where(fast, "fast", "slow"),
    )
    return Programs(data, reference, {"fast": FAST, "slow": SLOW})


def test_without_hardware_features_devices_look_alike():
    programs = programs_of()
    widths = {name: with_inputs(programs, name).features.task.shape[1] for name in INPUTS}
    assert widths["task"] == TASK_DIM and widths["program"] == TASK_DIM + DRAFT_DIM
    assert widths["hardware"] == widths["program"] + 9 and widths["interactions"] == widths["hardware"] + 33
    for name in INPUTS:
        features = with_inputs(programs, name).features
        assert (features.hardware == FAST.features()).all() and features.counts.shape[1] == 0
        differ = len(np.unique(features.task, axis=0)) > 1
        assert differ == (name in ("hardware", "interactions"))
    assert least_over_reference(programs).tolist() == pytest.approx([1.0, 4.0] * 12)


@pytest.mark.parametrize("target", ["latency", "over_roofline"])
def test_no_model_sees_the_device(monkeypatch, target):
    """A model whose output is the least latency of every program is right over the device's own roofline."""
    programs, seen = programs_of(), []

    class Model:
        target = TargetConfig("efficiency")

        def predict_all_table(self, table, rows):
            ones = np.ones(len(rows), np.float32)
            return type("Made", (), {"score": ones, "output": ones})

    def trained(fit, data, extra):
        seen.append(set(data.hardware_id))
        return Model()

    monkeypatch.setattr(study, "trained", trained)
    found = errors(programs, Fit(0, "slow", "trees", target, "hardware"))
    assert seen == [{"fast"}]
    assert set(found) == {"all", "seen"} and found["all"]["records"] == 12
    # The least latencies are 0.25 s on the reference device and 1 s on the slow one.
    least_s = 1.0 if target == "over_roofline" else 0.25
    expected = np.log(least_s / (4 * np.arange(1.0, 13.0))).mean()
    assert found["all"]["offset"] == pytest.approx(expected, abs=1e-5)


def test_metrics_by_hand():
    data = replace(dataset(tasks=1, per_task=4), latency_s=np.array([1.0, 2.0, 4.0, 8.0]))
    predicted_s = data.latency_s * np.array([2.0, 2.0, 2.0, 0.5])
    found = metrics(data, 1 / predicted_s.astype(np.float32), predicted_s, np.arange(4))
    assert found["error"] == pytest.approx(np.log(2)) and found["offset"] == pytest.approx(np.log(2) / 2)
    assert found["task_r2"] == pytest.approx(0) and found["r2"] == pytest.approx(1 - 4 / 5)
    assert (found["tasks"], found["records"], found["top_1"]) == (1, 4, 1.0)
    assert "r2" not in metrics(data, 1 / predicted_s.astype(np.float32), None, np.arange(4))


def test_tasks_are_seen_or_not():
    found = parts(np.array([True, False, True]))
    assert {name: rows.tolist() for name, rows in found.items()} == {
        "all": [True, True, True],
        "unseen": [False, True, False],
        "seen": [True, False, True],
    }


def test_agreement_of_devices_by_hand():
    """In each task, the second device has the two fastest programs of the first in reverse order."""
    runs = [
        {"workload_hash": task, "trace": f"p{number}", "hardware_id": device, "run_secs": [latency]}
        for task in "abcde"
        for device, latencies in (("d", range(1, 9)), ("e", (4, 2, *range(5, 11))), ("f", range(1, 9)))
        for number, latency in enumerate(map(float, latencies))
        if device != "f" or task == "a"
    ]
    (found,) = agreements(pa.Table.from_pylist(runs))
    assert (found["devices"], found["tasks"], found["programs"]) == (["d", "e"], 5, 40)
    assert found["spearman"] == pytest.approx(1 - 6 * 2 / (8 * 63))
    assert found["top_1"] == pytest.approx(1 / 2)  # 2 s of 4 s, and 1 s of 2 s


def test_fits_run_seed_by_seed_with_networks_in_the_first():
    made = list(fits(["a", "b"], ["trees", "draft"], 2))
    assert len(made) == len({fit.name for fit in made}) == 2 * 2 * 11 + 2 * 3
    assert [fit.device for fit in made[:22]] == ["a"] * 11 + ["b"] * 11
    assert {(fit.model, fit.target) for fit in made[22:28]} == {("draft", "latency")}
    assert {(fit.seed, fit.model) for fit in made[28:]} == {(1, "trees")}
    assert not any(fit.inputs == "task" and (fit.target == "score" or fit.model == "draft") for fit in made)


def made_up_result(tmp_path) -> Result:
    """Two devices and two seeds: hardware features lower the error by 0.2 on a, and raise it by 0.1 on b."""
    errors_of = {("program", "a"): 0.6, ("program", "b"): 0.5, ("hardware", "a"): 0.4, ("hardware", "b"): 0.6}
    rows = [
        {
            **{"model": "trees", "target": "latency", "inputs": name, "device": device, "seed": seed},
            "parts": {
                "all": {"tasks": 40, "error": error + 0.01 * seed, "offset": -0.3},
                "unseen": {"tasks": 3, "error": 9.0, "offset": 9.0},
            },
        }
        for (name, device), error in errors_of.items()
        for seed in range(2)
    ]
    devices = {name: {"machine": "zen4", "cpu": f"mcpu-{name}", "cores": 2} for name in "ab"}
    return Result(tmp_path, {"fits": rows, "devices": devices}, {})


def test_gains_are_means_over_devices_with_their_standard_error(tmp_path):
    (row,) = gains(made_up_result(tmp_path))
    assert (row["inputs"], row["than_inputs"], row["devices"]) == ("hardware", "program", 2)
    # Gains of 0.2 and -0.1: their standard deviation is 0.3 / sqrt(2).
    assert row["error"] == {"mean": pytest.approx(0.05), "error": pytest.approx(0.15), "better": 1}
    assert "r2" not in row  # no fit has it


def test_rows_of_parts_and_devices(tmp_path):
    result = made_up_result(tmp_path)
    rows = by_part(result)
    assert len(rows) == 8 and rows[0]["all"]["level"] == 0.3 and "unseen" not in rows[0]
    assert {row["new_device"] for row in held_out(result)} == {"`mcpu-a`", "`mcpu-b`"}
    assert {row["told"] for row in held_out(result)} == {"latency program", "latency hardware"}
