"""Landing: merges the crate of a machine into this checkout, completely or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..common import MANIFEST_FIELDS, read_json
from . import crate
from .limits import CampaignError
from .stages import STAGES
from .workspace import PARTS, Workspace


def land(folder: Path, workspace: Workspace) -> list[str]:
    """Merges a crate, and returns one line for each result and dataset. Landing it again changes nothing.

    The work of the crate replaces the work of the campaign. Results go to `workspace.results`, datasets to
    `workspace.data`. Raises CampaignError, before it writes anything, if the crate is damaged, not of this
    campaign, simulated, or older than the work of the campaign.
    """
    incoming = workspace.work.with_name(f".{workspace.work.name}.incoming")
    shutil.rmtree(incoming, ignore_errors=True)
    try:
        found = crate.read(folder, incoming / "crate")
        content = incoming / "content"
        content.mkdir()
        found.unpack(content)
        _check(folder, found.facts, content, workspace)
        results = list(_results(folder, content))
        datasets = list(_datasets(folder, content, workspace))
        written = [_put_result(path, content / "results", workspace.results) for path in results]
        written += [_put_dataset(path, workspace.data) for path in datasets]
        _replace(content, workspace.work)
        workspace.write_state({name: found.facts[name] for name in ("calls", "commit")})
    finally:
        shutil.rmtree(incoming, ignore_errors=True)
    return written


def _check(folder: Path, facts: Any, content: Path, workspace: Workspace) -> None:
    if bool(facts.get("dry_run")) != workspace.dry_run:
        kind = "a rehearsal" if facts.get("dry_run") else "measured"
        raise CampaignError(
            f"{folder}: is {kind}; land it with{'' if facts.get('dry_run') else 'out'} --dry-run"
        )
    here = workspace.read_state().get("calls", 0)
    if facts.get("calls", 0) < here:
        raise CampaignError(
            f"{folder}: is of call {facts.get('calls')}, but call {here} has landed; nothing was changed"
        )
    for path in content.iterdir():
        if path.name not in PARTS:
            raise CampaignError(f"{folder}: has {path.name}, which no campaign packs; nothing was changed")


def _results(folder: Path, content: Path) -> Iterator[Path]:
    """Folders of results. Raises CampaignError for an invalid one."""
    known = {
        name
        for stage in STAGES.values()
        for step in stage.steps
        for name in (step.benchmark, step.dry_benchmark)
    }
    for path in sorted((content / "results").glob("*/*/result.json")):
        try:
            manifest = read_json(path.parent / "manifest.json")
            read_json(path)
            lacking = [name for name in MANIFEST_FIELDS if name not in manifest]
        except (OSError, ValueError) as error:
            raise CampaignError(f"{folder}: {path.parent.name}: {error}; nothing was changed") from error
        name = f"{path.parent.parent.name}/{path.parent.name}"
        if lacking or manifest["benchmark"] not in known or path.parent.parent.name != manifest["benchmark"]:
            raise CampaignError(f"{folder}: {name} is not a result of a campaign; nothing was changed")
        yield path.parent


def _datasets(folder: Path, content: Path, workspace: Workspace) -> Iterator[Path]:
    """Folders of datasets. Raises CampaignError if one is damaged or lacks records of `workspace.data`."""
    from foretune.dataset.records.store import RecordStore, StoreError

    for path in sorted(path for path in (content / "data").glob("*") if path.is_dir()):
        store = RecordStore(path)
        try:
            store.require().require_intact()
            records = store.records()
        except StoreError as error:
            raise CampaignError(f"{folder}: {error}; nothing was changed") from error
        if not workspace.dry_run and any(record.simulated for record in records):
            raise CampaignError(f"{folder}: {path.name} has simulated records; nothing was changed")
        here = RecordStore(workspace.data / path.name)
        if here.folder.is_dir():
            known = {record.key for record in here.records()}
            if lost := known - {record.key for record in records}:
                raise CampaignError(
                    f"{folder}: {path.name} lacks {len(lost)} records of {here.folder}; nothing was changed. "
                    f"Merge them with foretune dataset merge, or move {here.folder} away"
                )
        yield path


def _put_result(path: Path, source: Path, results: Path) -> str:
    target = results / path.relative_to(source)
    target.mkdir(parents=True, exist_ok=True)
    for file in sorted(path.iterdir()):
        beside = target / f".{file.name}.incoming"
        shutil.copyfile(file, beside)
        beside.replace(target / file.name)
    return f"result {target}"


def _put_dataset(path: Path, data: Path) -> str:
    """Copies a dataset, then removes the shards that it no longer has."""
    target = data / path.name
    target.mkdir(parents=True, exist_ok=True)
    files = [file for file in sorted(path.rglob("*")) if file.is_file() and file.name != ".lock"]
    for file in files:
        new = target / file.relative_to(path)
        new.parent.mkdir(parents=True, exist_ok=True)
        beside = new.with_name(f".{new.name}.incoming")
        shutil.copyfile(file, beside)
        beside.replace(new)
    kept = {file.name for file in files}
    for old in [*target.glob("records-*.parquet"), *target.glob("tasks-*.parquet")]:
        if old.name not in kept:
            old.unlink()
    return f"dataset {target}"


def _replace(content: Path, work: Path) -> None:
    """Replaces old work by new work."""
    old = work.with_name(f".{work.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    work.parent.mkdir(parents=True, exist_ok=True)
    if work.is_dir():
        work.rename(old)
    content.rename(work)
    shutil.rmtree(old, ignore_errors=True)
