"""Runs of a benchmark that lasts hours: each run is stored, time is limited, and a later call continues."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from foretune.errors import UserError
from foretune.wording import counted, duration

from .checkouts import cause_of, commit_of
from .common import ROOT, Start, kept_run, machine_name, read_json, result_folder, write_result
from .networks.runs import DisturbedError

if TYPE_CHECKING:
    from foretune.dataset.hardware import Hardware

T = TypeVar("T")

FAILED = (subprocess.SubprocessError, OSError, DisturbedError, UserError)


def add_options(parser: argparse.ArgumentParser, folder: str, minutes: str, *, extends: bool = True) -> None:
    """Adds the options of `KeptRuns`; `minutes` describes the default limit in the help.

    Without `extends`, the option to add to a committed result is absent.
    """
    add = parser.add_argument
    add("--minutes", type=float, help=f"begin no run after so many ({minutes})")
    add("--again", action="store_true", help="run anew what is kept")
    add("--keep", action="store_true", help="keep runs of earlier commits too")
    if extends:
        add("--extend", action="store_true", help="add to the committed result of this machine")
    add("--runs-in", type=Path, default=Path(folder), help="(%(default)s)")


class Progress:
    """Estimates of the time that is left, printed after each new run."""

    def __init__(self) -> None:
        self._expected = 0
        self._took_s: list[float] = []

    def expect(self, runs: int) -> None:
        """Announces the number of the next runs, including kept ones."""
        self._expected, self._took_s = runs, []

    def timed(self, make: Callable[[], T]) -> Callable[[], T]:
        """`make` for the next run, if it is not kept."""
        self._expected -= 1

        def made() -> T:
            begun = time.monotonic()
            found = make()
            self._took_s.append(time.monotonic() - begun)
            if self._expected > 0:
                left = duration(self._expected * statistics.median(self._took_s))
                print(f"{counted(self._expected, 'run')} left, {left} at most at this pace", flush=True)
            return found

        return made


class KeptRuns:
    """Runs, each stored as soon as it completes."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        minutes: float,
        *,
        folder: str = "",
        earlier: Mapping[str, Any] | None = None,
    ) -> None:
        """Reads the options of `add_options`.

        Args:
            minutes: limit without `--minutes`.
            folder: part of the benchmark, a folder in `--runs-in`.
            earlier: result to extend.
        """
        self.earlier = earlier or {}
        self.folder = (arguments.runs_in / folder).resolve()
        self.failures: list[dict[str, Any]] = []
        self.left_out: list[str] = []
        self.progress = Progress()
        self._arguments = arguments
        self._ends = time.monotonic() + 60 * (minutes if arguments.minutes is None else arguments.minutes)

    @property
    def left_s(self) -> float:
        """Seconds in which a run may begin."""
        return self._ends - time.monotonic()

    def in_time(self, name: str) -> bool:
        """Whether another run may begin; a run that may not is recorded."""
        if time.monotonic() <= self._ends:
            return True
        self.left_out.append(name)
        return False

    def kept(
        self,
        name: str,
        settings: dict[str, Any],
        make: Callable[[], Any],
        suffix: str = ".json",
        *,
        written: Path | None = None,
    ) -> Any:
        """The kept run with this name and these settings, or a new one; None after a failure.

        `written` is a file that `make` writes, too; a run without it is repeated.
        """
        settings = {"commit": commit_of(ROOT), **settings}
        free = ("commit",) if self._arguments.keep else ()
        again = self._arguments.again
        path = self.folder / f"{name}{suffix}"
        timed = self.progress.timed(make)
        try:
            return kept_run(path, settings, timed, again=again, free=free, library=written)
        except FAILED as error:
            cause = cause_of(error)
            self.failures.append({"run": name, "error": cause})
            print(f"{name}: failed: {cause}", flush=True)
            return None

    def write(self, benchmark: str, result: Mapping[str, Any], begun: Start, machine: Hardware) -> Path:
        """Writes a result with its failed and omitted runs; returns its folder."""
        if self.left_out:
            print(f"no time for {', '.join(self.left_out)}; the same command goes on with them", flush=True)
        common = {
            "overrides": self._arguments.overrides,
            "failures": self.failures,
            "left_out": self.left_out,
        }
        notes = notes_of(self.earlier)
        return write_result(
            benchmark,
            {**common, **result},
            begun,
            machine,
            variant=getattr(self._arguments, "variant", ""),
            notes=notes,
            results=self._arguments.out,
        )


def earlier_result(arguments: argparse.Namespace, benchmark: str, machine: Hardware) -> dict[str, Any]:
    """Result that `--extend` adds to, with `commit` and `notes` of its manifest; empty if it does not exist.

    Raises UserError for a result with other overrides, search, trials or size.
    """
    name = machine_name(asdict(machine))
    folder = result_folder(arguments.out, benchmark, name, getattr(arguments, "variant", ""))
    if not arguments.extend or not (folder / "result.json").is_file():
        return {}
    result = read_json(folder / "result.json")
    for field in ("overrides", "search", "trials", "size"):
        mine = getattr(arguments, field, None)
        if field in result and result[field] != mine:
            raise UserError(
                f"--extend: {folder} has {field}={result[field]}, this run {mine}; give the same or leave "
                "--extend out"
            )
    manifest = read_json(folder / "manifest.json")
    return {**result, "commit": manifest["commit"], "notes": manifest["notes"]}


def notes_of(earlier: Mapping[str, Any]) -> str:
    """Notes of a manifest on the results that were extended, without duplicates, in their order."""
    if not earlier:
        return ""
    notes = [*filter(None, earlier["notes"].split("; ")), f"adds to the runs of commit {earlier['commit']}"]
    return "; ".join(dict.fromkeys(notes))
