"""Measured programs of one task: MetaSchedule's database on disk, and its compact form in one file.

A folder has the two files of a `JSONDatabase`, with the records in the order of their measurement, and
`progress.json`. The compact form has the same programs without their postprocessing, which a replay adds.
Then most programs of a task differ in their decisions only, and each list of instructions is stored once.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tvm
from foretune.compiler.replay import RejectedError, replay_or_reject, without_postprocessing
from foretune.dataset.records.database_lines import FAILED_S, RECORD_FILE, WORKLOAD_FILE
from foretune.errors import UserError, first_line
from foretune.files import written_whole
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ..common import write_json

PROGRESS_FILE = "progress.json"

Content = list[Any]
"""A record: MetaSchedule's JSON of the trace without postprocessing, and the repeats in seconds."""


_BROKEN = (ValueError, TypeError, KeyError, IndexError, AttributeError)
"""Errors of a content that has another form."""


class BrokenStateError(UserError):
    """Kept programs cannot be read, or belong to another search."""


@dataclass
class TaskRecords:
    """Programs of a task in the order of their measurement, and the progress of their search."""

    folder: Path
    settings: Mapping[str, Any]
    """JSON values that identify the search."""
    contents: list[Content] = field(default_factory=list)
    rounds: list[tuple[int, float]] = field(default_factory=list)
    """Number of programs, and seconds of search and measurement so far, after each round."""
    exhausted: bool = False
    """Whether the search finds no further program."""

    @classmethod
    def read(cls, folder: Path, settings: Mapping[str, Any]) -> TaskRecords:
        """Reads a folder, which may be new.

        An incomplete last line, which a killed process leaves, is removed. Raises BrokenStateError if the
        folder belongs to another search or cannot be read.
        """
        found = cls(folder, json.loads(json.dumps(settings)))
        path = folder / PROGRESS_FILE
        if not path.exists() and not (folder / RECORD_FILE).exists():
            return found
        try:
            found._take(json.loads(path.read_text(encoding="utf-8")), str(folder))
        except (OSError, *_BROKEN) as error:
            raise _unreadable(path, error, folder) from error
        found.read_contents()
        return found

    def read_contents(self) -> None:
        """Reads the programs that are on disk now. Raises BrokenStateError."""
        self.contents = _read_lines(self.folder / RECORD_FILE)

    def _take(self, progress: Mapping[str, Any], where: str) -> None:
        for name, value in self.settings.items():
            if progress["settings"].get(name) != value:
                raise BrokenStateError(
                    f"{where} has {name}={progress['settings'].get(name)!r}, this search has {value!r}; "
                    "remove it, or name another folder by --runs-in"
                )
        self.rounds = [(int(programs), float(seconds)) for programs, seconds in progress["rounds"]]
        self.exhausted = bool(progress["exhausted"])

    def write_progress(self) -> None:
        """Stores all but the programs, which a search adds one by one."""
        write_json(self.folder / PROGRESS_FILE, self.progress)

    @property
    def progress(self) -> dict[str, Any]:
        """JSON of all but the programs."""
        return {"settings": dict(self.settings), "rounds": self.rounds, "exhausted": self.exhausted}

    def candidates(self, context: ms.TuneContext) -> list[ms.MeasureCandidate]:
        """All programs in the order of their measurement, replayed. Raises BrokenStateError."""
        found = []
        for number, content in enumerate(self.contents, 1):
            try:
                found.append(replay_or_reject(context, content[0]))
            except RejectedError as error:
                raise _unreadable(self.folder / RECORD_FILE, error, self.folder, number) from error
        return found

    def database(
        self, mod: tvm.IRModule, target: Target, candidates: Sequence[ms.MeasureCandidate]
    ) -> ms.database.JSONDatabase:
        """Database on disk of the task in `mod`, which writes each further record at once.

        `candidates` are all programs so far. Their records are written anew, because those of a compact file
        are not on disk, and a killed process may have left an incomplete line.
        """
        self.write_progress()
        (self.folder / WORKLOAD_FILE).unlink(missing_ok=True)
        with written_whole(self.folder / RECORD_FILE) as partial:
            partial.touch()
            database = ms.database.JSONDatabase(str(self.folder / WORKLOAD_FILE), str(partial))
            database.commit_workload(mod)
            for candidate, (_, run_secs) in zip(candidates, self.contents, strict=True):
                commit(database, mod, target, candidate, run_secs)
        return ms.database.JSONDatabase(work_dir=str(self.folder))

    def done(self, trials: int) -> bool:
        """Whether the search has measured `trials` programs, or finds no further one."""
        return self.exhausted or len(self.contents) >= trials

    @property
    def failed(self) -> int:
        """Number of programs that failed to build or to run."""
        return sum(latency_s(content) >= FAILED_S for content in self.contents)

    def measured(self, trials: int) -> int:
        """Number of programs among the first `trials`."""
        return min(trials, len(self.contents))

    def seconds(self, trials: int) -> float:
        """Seconds until the round that completed the first `trials` programs, or until the last round."""
        until = [seconds for programs, seconds in self.rounds if programs >= self.measured(trials)]
        return until[0] if until else self.rounds[-1][1] if self.rounds else 0.0

    def best(self, trials: int) -> Content | None:
        """The fastest of the first `trials` programs by MetaSchedule's rule; None if none ran."""
        ran = [content for content in self.contents[:trials] if latency_s(content) < FAILED_S]
        return min(ran, key=latency_s, default=None)


def commit(
    database: ms.Database,
    mod: tvm.IRModule,
    target: Target,
    candidate: ms.MeasureCandidate,
    run_secs: Sequence[float],
) -> None:
    """Adds a program of the task in `mod` to a database."""
    workload = database.commit_workload(mod)
    database.commit_tuning_record(
        ms.database.TuningRecord(candidate.sch.trace, workload, list(run_secs), target, candidate.args_info)
    )


def latency_s(content: Content) -> float:
    """Mean of the repeats in seconds, by which MetaSchedule ranks; FAILED_S or more after a failure."""
    return sum(content[1]) / len(content[1])


def _read_lines(path: Path) -> list[Content]:
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    found = []
    for number, line in enumerate(lines[:-1], 1):  # what follows the last line break is incomplete
        try:
            trace, run_secs, *_ = json.loads(line)[1]
            found.append(_checked([without_postprocessing(trace), run_secs]))
        except _BROKEN as error:
            raise _unreadable(path, error, path.parent, number) from error
    return found


def _checked(content: Any) -> Content:
    """The content of a record; raises one of _BROKEN if its form is not MetaSchedule's."""
    (instructions, decisions), run_secs = content
    if not isinstance(instructions, list) or not all(len(decision) == 2 for decision in decisions):
        raise ValueError("no trace of MetaSchedule")
    if not run_secs or not all(isinstance(second, float | int) and second > 0 for second in run_secs):
        raise ValueError(f"no latency: {run_secs!r:.40}")
    return list(content)


def _unreadable(path: Path, error: Exception, remove: Path, line: int | None = None) -> BrokenStateError:
    place = f"{path}, line {line}" if line else str(path)
    return BrokenStateError(
        f"{place}: cannot be read ({first_line(error)}); remove {remove} to continue from the committed state"
    )


# The compact form.


def packed(contents: Sequence[Content]) -> dict[str, Any]:
    """Contents of records with each list of instructions once; `unpacked` gives the same contents."""
    frames: dict[str, int] = {}
    records = []
    for (instructions, decisions), run_secs in contents:
        frame = json.dumps([instructions, [number for number, _ in decisions]])
        values = [value for _, value in decisions]
        records.append([frames.setdefault(frame, len(frames)), values, run_secs])
    return {"frames": [json.loads(frame) for frame in frames], "records": records}


def unpacked(compact: Mapping[str, Any]) -> list[Content]:
    """Contents of records from their compact form. Raises one of _BROKEN."""
    found = []
    for number, values, run_secs in compact["records"]:
        instructions, numbers = compact["frames"][number]
        decisions = [list(pair) for pair in zip(numbers, values, strict=True)]
        found.append(_checked([[instructions, decisions], run_secs]))
    return found


def write_compact(path: Path, tasks: Sequence[TaskRecords]) -> None:
    """Writes the programs of all tasks of a network into one compressed file."""
    content = {one.folder.name: {"progress": one.progress, **packed(one.contents)} for one in tasks}
    with written_whole(path) as partial:
        partial.write_bytes(lzma.compress(json.dumps(content, separators=(",", ":")).encode()))


def read_compact(path: Path, tasks: Sequence[TaskRecords]) -> None:
    """Takes the programs of each task from a compact file, if it exists and has more of them than the folder.

    Raises BrokenStateError if the file cannot be read or belongs to another search.
    """
    if not path.is_file():
        return
    try:
        content = json.loads(lzma.decompress(path.read_bytes()))
        for task in tasks:
            of = content.get(task.folder.name)
            if of is not None and (len(of["records"]), of["progress"]["exhausted"]) > (
                len(task.contents),
                task.exhausted,
            ):
                task._take(of["progress"], f"{path}, {task.folder.name}")
                task.contents = unpacked(of)
    except (lzma.LZMAError, *_BROKEN) as error:
        raise BrokenStateError(
            f"{path}: cannot be read ({first_line(error)}); restore it from git, or remove it to search anew"
        ) from error
