"""Libraries of a network: one for the whole range, and some of fixed shapes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from foretune.compiler.networks.dynamic.dynamic_inputs import Sizes
from foretune.dataset.measure.job import MeasureConfig
from foretune.dataset.measure.worker.process import WorkerLostError, WorkerProcess, WorkerSpec
from foretune.dataset.records.schema import FailureKind
from foretune.inference.deploy.rivals.registry import LIBRARY
from foretune.inference.deploy.runners import first_line
from foretune.inference.dynamic.comparison import Entrant, megabytes
from tvm.target import Target

from ..common import kept_run
from .buckets import ENGINE, Library, bucket_of, write_buckets
from .engines import BUCKETS, FIXED, FORETUNE, SEARCHES
from .networks import Subject
from .progress import LIBRARY as LIBRARY_STEP

LIMIT_S = 1800.0
"""Seconds after which a build is aborted."""

Step = Callable[[str, str, Callable[[], Any]], Any]
"""Does a step, given its kind (see `progress`), its name and a function; returns its result."""


class BuildError(subprocess.SubprocessError):
    """A library was not built."""


class Builder:
    """Process that builds libraries, started for the first one."""

    def __init__(self) -> None:
        self._process: WorkerProcess | None = None

    def __enter__(self) -> Builder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def build(self, words: Sequence[str]) -> dict[str, Any]:
        """Description of the run, see `BuildProcess.build`. Raises BuildError."""
        try:
            if self._process is None:
                module = f"{__package__}.building"
                spec = WorkerSpec(
                    *("build", Target("llvm"), MeasureConfig()),
                    module=module,
                    torch=True,
                    shares_imports=False,
                )
                self._process = WorkerProcess(spec)
                self._process.receive_ready(LIMIT_S)
            self._process.send({"op": "build", "words": list(words)})
            reply = self._process.receive(LIMIT_S, FailureKind.RUN_TIMEOUT)
        except WorkerLostError as gone:
            self._end()
            raise BuildError(str(gone)) from gone
        if "error" in reply:
            raise BuildError(first_line(str(reply["error"])))
        return reply

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
        self._process = None


@dataclass(frozen=True)
class Built:
    """Entrants of Foretune, with the size of their libraries."""

    entrants: Sequence[Entrant]
    library_mb: dict[str, float]
    about: dict[str, Any]
    """Facts about the library of the whole range."""
    left_out: dict[str, str]
    """Engine -> reason why it does not take part, or lacks a size."""
    library_s: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Engine -> seconds until each of its libraries was built."""
    largest: Sequence[Entrant] = ()
    """Entrants for the largest sizes alone: the library of the whole range, and a library of these sizes."""


class Libraries:
    """Builds the libraries of a subject in a folder, in which those of an earlier call are kept."""

    def __init__(
        self, subject: Subject, folder: Path, builder: Builder, step: Step, commit: str | None
    ) -> None:
        self._subject, self._folder, self._builder, self._step = subject, folder, builder, step
        self._commit = commit
        self._known: dict[str, dict[str, Any]] = {}

    def build(self, engines: Sequence[str], sizes: Sequence[Sizes]) -> Built:
        """Builds the libraries of the engines. Raises BuildError if the whole range has none."""
        about = self._built(FORETUNE, None)
        path = self._folder / f"{FORETUNE}.so"
        entrants = [Entrant(FORETUNE, LIBRARY, path, before_s=about["seconds"])]
        library_mb, left_out = {FORETUNE: megabytes(path)}, {}
        library_s = {FORETUNE: [about["seconds"]]}
        for engine in (one for one in SEARCHES if one in engines):
            if engine == BUCKETS and self._subject.unpadded:
                left_out[engine] = self._subject.unpadded
                continue
            tested = sizes if engine == BUCKETS else [one for one in self._subject.references if one in sizes]
            found, seconds = [], []
            for wanted in wanted_libraries(engine, self._subject, sizes):
                name = library_name(engine, wanted)
                try:
                    seconds.append(self._built(name, wanted, SEARCHES[engine])["seconds"])
                    found.append(Library(wanted, f"{name}.so"))
                except BuildError as error:
                    left_out[engine] = f"{name}: {error}"
            able = [one for one in tested if any(_fits(engine, one, library) for library in found)]
            if able:
                entrants.append(self._entrant(engine, found, able, sum(seconds)))
                library_mb[engine] = sum(megabytes(self._folder / one.file) for one in found)
                library_s[engine] = seconds
        largest = self._largest(path) if FIXED in library_s else []
        return Built(entrants, library_mb, about, left_out, library_s, largest)

    def _largest(self, path: Path) -> list[Entrant]:
        """Entrants for the largest sizes alone; none if no library of these is built."""
        sizes = self._subject.highest
        name = library_name(FIXED, sizes)
        try:
            self._built(name, sizes, SEARCHES[FIXED])
        except BuildError:
            return []
        own = Entrant(FORETUNE, LIBRARY, path, [sizes])
        return [own, self._entrant(FIXED, [Library(sizes, f"{name}.so")], [sizes], file="largest")]

    def _entrant(
        self,
        engine: str,
        libraries: Sequence[Library],
        able: Sequence[Sizes],
        seconds: float = 0.0,
        file: str = "",
    ) -> Entrant:
        described = self._folder / f"{file or engine}.json"
        write_buckets(described, self._subject.signature, libraries)
        return Entrant(engine, ENGINE, described, able, seconds)

    def _built(self, name: str, sizes: Sizes | None, search: str = "no_measurement") -> dict[str, Any]:
        if name in self._known:  # another engine has it, too
            return self._known[name]
        library = self._folder / f"{name}.so"
        scratch = self._folder / "reports" / name
        words = [
            *self._subject.words(sizes),
            *([] if sizes is None else [f"search={search}"]),  # a range has no search
            f"export={library}",
            f"output={scratch}",
            f"database={self._folder / 'database'}",
            *("rivals=[]", "untuned_limit_s=1e-9", "check_memory=false", "cache=false"),
        ]
        self._known[name] = self._step(
            *(LIBRARY_STEP, name),
            lambda: kept_run(
                self._folder / f"{name}.json",
                {"commit": self._commit, "words": words},
                lambda: self._builder.build(words),
                library=library,
            ),
        )
        return self._known[name]


def wanted_libraries(engine: str, subject: Subject, sizes: Sequence[Sizes]) -> list[Sizes]:
    """Sizes of the libraries that an engine of fixed shapes needs to run these sizes."""
    if engine == BUCKETS:
        if subject.unpadded:
            return []
        found = [bucket_of(one, subject.highest) for one in sizes]
    else:
        found = [dict(one) for one in subject.references if one in sizes]
    return [one for number, one in enumerate(found) if one not in found[:number]]


def library_name(engine: str, sizes: Sizes) -> str:
    """Name of a library by its search; buckets and exact sizes share those without a search."""
    return "-".join([SEARCHES[engine], *(f"{name}{size}" for name, size in sizes.items())])


def _fits(engine: str, sizes: Sizes, library: Library) -> bool:
    if engine != BUCKETS:
        return dict(library.sizes) == dict(sizes)
    return all(library.sizes[name] >= size for name, size in sizes.items())
