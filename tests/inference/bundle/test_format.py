"""The format of a bundle: what is written is read, and what is damaged is named."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import asdict

import pytest
from foretune.inference.bundle.archive import BundleError, read_archive, write_archive
from foretune.inference.bundle.format import (
    LATER_MEMBERS,
    MEMBERS,
    Manifest,
    content_hash,
    read_bundle,
    write_bundle,
)
from foretune.inference.database.task_note import TaskNote
from foretune.json_fields import read_fields
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.bundles import bundle_of

LATENCIES = {3: {"a": 2e-3, "b": 1e-3}, 5: {"a": 4e-3}}


@pytest.fixture
def written(tmp_path):
    return write_bundle(tmp_path / "a.zip", bundle_of(LATENCIES, {3: (1, 6)}))


def test_what_is_written_is_read(written, tmp_path):
    again = read_bundle(tmp_path / "a.zip")
    assert again.manifest == written.manifest
    assert len(again.manifest.content_sha256) == 64
    assert list(again.workloads) == list(written.workloads)
    assert [record.line(record.workload) for record in again.records] == [
        record.line(record.workload) for record in written.records
    ]
    assert [record.latency_s for record in again.records] == [2e-3, 1e-3, 4e-3]
    assert [task.latency_s for task in again.manifest.tasks] == [1e-3, 4e-3]
    assert json.loads(again.target_json) == again.manifest.target


@pytest.mark.parametrize(("version", "lacks"), [(1, ("notes", "predicted_notes")), (2, ("predicted_notes",))])
def test_a_bundle_of_an_earlier_version_is_read(tmp_path, version, lacks):
    """It has three members and fewer notes, also in its hash."""
    manifest = write_bundle(tmp_path / "a.zip", bundle_of(LATENCIES, schema_version=version)).manifest
    members = read_archive(tmp_path / "a.zip", MEMBERS)
    values = json.loads(members["manifest.json"])
    for name in lacks:
        del values[name]
    rest = json.dumps({**values, "content_sha256": ""}, sort_keys=True, separators=(",", ":")).encode()
    digest = hashlib.sha256()
    for part in (rest, *(members[name] for name in MEMBERS[1:])):
        digest.update(f"{len(part)}:".encode() + part)
    assert manifest.content_sha256 == digest.hexdigest()
    (tmp_path / "a.zip").unlink()
    write_archive(tmp_path / "a.zip", {**members, "manifest.json": json.dumps(values).encode()})
    again = read_bundle(tmp_path / "a.zip")
    assert again.manifest == manifest and not (again.predicted or again.templates)


def rewritten(path, **changes):
    """The bundle in `path` with another manifest, whose hash is right, and with other members."""
    members = read_archive(path, MEMBERS, LATER_MEMBERS)
    members |= {name: changes.pop(name) for name in (*MEMBERS, *LATER_MEMBERS) if name in changes}
    values = {**json.loads(members["manifest.json"]), **changes}
    if values.get("content_sha256") != "keep":
        try:
            values["content_sha256"] = content_hash(read_fields(Manifest, values), members)
        except ValueError:
            values["content_sha256"] = ""
    path.unlink()
    write_archive(path, {**members, "manifest.json": json.dumps(values).encode()})


def template_line(**changes) -> bytes:
    """A line of GPU templates."""
    note = {"workload": "00", "latency_s": 1e-3, "title": "product", "module": ""}
    return json.dumps({**note, **changes}).encode() + b"\n"


def kernel_line(**changes) -> bytes:
    """A line of kernels for dynamic shapes."""
    note = {"kernel": "0123456789abcdef", "latency_s": 1e-3, "tvm": "0.27.0", "version": 1}
    return json.dumps({**note, **changes}).encode() + b"\n"


HARDWARE = asdict(bundle_of({}).manifest.hardware)
NOTE = asdict(TaskNote("00"))
TASK = asdict(bundle_of(LATENCIES).manifest.tasks[0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema_version": 5}, "schema_version=5, but this foretune reads 1, 2, 3, 4; use the foretune"),
        ({"schema_version": 1}, "'notes' is unknown in a bundle of version 1"),
        ({"schema_version": 2}, "'predicted_notes' is unknown in a bundle of version 2"),
        ({"notes": [{**NOTE, "untuned_s": float("nan")}]}, r"notes\[0\]\.untuned_s=nan must be a number"),
        ({"notes": [{**NOTE, "left": "\x1b[2J"}]}, r"notes\[0\]\.left has characters that do not print"),
        ({"notes": [{"left": ""}]}, r"notes\[0\]\.'ended' is missing"),
        ({"schema_version": None}, "schema_version=None"),
        ({"content_sha256": "keep"}, "content_sha256"),
        ({"made_at": 5}, "made_at=5 must be a str"),
        ({"colour": "red"}, "'colour' is unknown"),
        ({"network": "\x1b[2J"}, "network has characters that do not print"),
        ({"target": ["llvm"]}, "target=.* must be a dict"),
        ({"target": {"kind": {"a": {"b": {"c": {"d": {"e": {"f": {"g": 1}}}}}}}}}, "target is nested over 8"),
        ({"hardware": {**HARDWARE, "cores": "two"}}, r"hardware\.cores='two' must be a whole number"),
        ({"hardware": {**HARDWARE, "cores": -1}}, r"hardware\.cores=-1 must be a whole number of at least 0"),
        ({"hardware": {"name": "a"}}, r"hardware\.'bandwidth_gbs' is missing"),
        ({"tasks": {}}, "tasks={} must be a list"),
        ({"tasks": [TASK, 3]}, r"tasks\[1\] is no JSON object: 3"),
        ({"tasks": [{**TASK, "latency_s": "fast"}]}, r"tasks\[0\]\.latency_s='fast' must be a number"),
        ({"tasks": [{**TASK, "latency_s": float("nan")}]}, r"tasks\[0\]\.latency_s=nan must be a number"),
        ({"tasks": [{**TASK, "records": 10**400}]}, r"tasks\[0\]\.records=10+ must be a whole number of"),
        ({"database_workload.json": b'["x","e30="]\n'}, "database_workload.json, line 1: no workload"),
        ({"database_workload.json": b"[1,\n"}, "database_workload.json, line 1: "),
        ({"predicted_record.json": b"[9,[]]\n"}, "predicted_record.json, line 1: of the task 9, but there"),
        ({"foretune_gpu_templates.json": b"{}\n"}, "foretune_gpu_templates.json, line 1: no GPU template"),
        (
            {"foretune_gpu_templates.json": template_line(latency_s=0)},
            "json, line 1: its latency 0 is no time in seconds",
        ),
        (
            {"foretune_gpu_templates.json": template_line(title="\x1b[2J")},
            "its workload or its title is no printable text",
        ),
        ({"foretune_gpu_templates.json": template_line(module=1)}, "its module is no text"),
        ({"foretune_kernel_times.json": b"{}\n"}, "foretune_kernel_times.json, line 1: no time of a kernel"),
        ({"foretune_kernel_times.json": kernel_line(kernel="../x")}, "its kernel '../x' must be a hash"),
        ({"foretune_kernel_times.json": kernel_line(latency_s=True)}, "its latency True must be a time in"),
        ({"foretune_kernel_times.json": kernel_line(tvm="\x1b")}, "its TVM must be printable text"),
        ({"foretune_kernel_times.json": kernel_line(version=2)}, "its version is 2, and this foretune"),
        ({"database_tuning_record.json": b"[9,[]]\n"}, "json, line 1: of the task 9, but there are 2 tasks"),
        ({"database_tuning_record.json": b"{}\n"}, "database_tuning_record.json, line 1: no record"),
        (
            {"database_tuning_record.json": b"[0,[[[],[]],[-1.0],{},[]]]\n"},
            r"line 1: its latency \[-1.0\] is no time",
        ),
        ({"database_tuning_record.json": b"[0,[[[],[]],[1e10],{},[]]]\n"}, "is no time in seconds"),
        ({"database_tuning_record.json": b"[0,[[[],[]],null,{},[]]]\n"}, "line 1: no latency"),
        (
            {"database_tuning_record.json": b"[0,[[[" + b"[" * 20 + b"]" * 20 + b"],[]],[1],{},[]]]\n"},
            "nested over 12 levels deep",
        ),
        ({"database_tuning_record.json": b"[" * 3000 + b"\n"}, "database_tuning_record.json, line 1: "),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(written, tmp_path, changes, message):
    rewritten(tmp_path / "a.zip", **changes)
    with pytest.raises(BundleError, match=message):
        read_bundle(tmp_path / "a.zip")


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"[" * 3000, b"\xff"])
def test_a_manifest_that_is_no_object_is_named(written, tmp_path, text):
    members = read_archive(tmp_path / "a.zip", MEMBERS, LATER_MEMBERS)
    (tmp_path / "a.zip").unlink()
    write_archive(tmp_path / "a.zip", {**members, "manifest.json": text})
    with pytest.raises(BundleError, match=r"manifest\.json: "):
        read_bundle(tmp_path / "a.zip")


@pytest.mark.parametrize("member", MEMBERS)
def test_each_member_is_hashed(written, tmp_path, member):
    """The sums of the zip file itself are right here."""
    members = read_archive(tmp_path / "a.zip", MEMBERS, LATER_MEMBERS)
    (tmp_path / "a.zip").unlink()
    changed = members[member].replace(b"2026-11-25", b"2026-11-26").replace(b"0.002", b"0.001")
    changed = changed.replace(b"e30=", b"e31=") if member == "database_workload.json" else changed
    assert changed != members[member]
    write_archive(tmp_path / "a.zip", {**members, member: changed})
    with pytest.raises(BundleError, match=r"truncated or damaged.*another hash than content_sha256"):
        read_bundle(tmp_path / "a.zip")


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_changed_byte_is_seen_or_changes_nothing(written, tmp_path, data):
    whole = (tmp_path / "a.zip").read_bytes()
    position = data.draw(st.integers(0, len(whole) - 1))
    changed = bytearray(whole)
    changed[position] ^= data.draw(st.integers(1, 255))
    path = tmp_path / "changed.zip"
    path.write_bytes(changed)
    try:
        assert read_bundle(path).manifest == written.manifest
    except BundleError as error:
        assert str(error).startswith(f"bundle={path}: ") and "; " in str(error)


def test_a_bundle_is_read_without_tvm_and_torch():
    code = (
        "import sys; import foretune.inference.bundle.cli; from foretune.inference import read_bundle; "
        "assert not {'tvm', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
