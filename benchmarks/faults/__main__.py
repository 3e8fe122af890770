"""Entry of `python -m benchmarks.faults`."""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..common import (
    ROOT,
    argument_parser,
    kept_run,
    read_json,
    revision,
    start,
    this_machine,
    write_json,
    write_result,
)
from ..forked_commands import ForkedCommands
from .kinds import KINDS, planned, private_mounts
from .subjects import SUBJECTS, forget_training, make_inputs
from .trial import Trials, environment_in

COUNTS = ("lost", "left_running", "tracebacks", "hung", "wrong_status", "not_continued")


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Options of the command line."""
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--faults", type=int, default=100, help="number of faults (%(default)s)")
    add("--seed", type=int, default=0, help="(%(default)s)")
    add("--commands", nargs="+", choices=SUBJECTS, default=list(SUBJECTS), help="(all)")
    add("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="(all)")
    add("--most", type=int, help="run at most so many faults that are not kept")
    add("--again", action="store_true", help="run anew what is kept")
    add("--dataset", type=Path, default=ROOT / "data/cpu", help="dataset to train on a part of (%(default)s)")
    add("--runs-in", type=Path, default=Path("outputs/benchmarks/faults"), help="(%(default)s)")
    return parser.parse_args(words)


def prepared(commands: ForkedCommands, folder: Path, dataset: Path, names: Sequence[str]) -> dict[str, float]:
    """Fills a folder, and returns the seconds of the named commands without a fault; a complete one is kept.

    Raises RuntimeError if a command fails.
    """
    times = folder.with_suffix(".json")
    if times.is_file() and set(names) <= set(kept := dict(read_json(times))):
        return kept
    times.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "temporary").mkdir(parents=True)
    make_inputs(folder, dataset)
    for words in dict.fromkeys(words for name in names for words in SUBJECTS[name].preparation):
        _timed(commands, folder, words)
    forget_training(folder)
    for name in ("output.txt", "errors.txt"):
        (folder / name).unlink()
    seconds = {}
    for name in names:
        subject = SUBJECTS[name]
        copy = folder.with_name("undisturbed")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        seconds[name] = _timed(commands, copy, subject.words, subject.entry)
        shutil.rmtree(copy)
    write_json(times, seconds)
    return seconds


def _timed(
    commands: ForkedCommands, folder: Path, words: Sequence[str], entry: str = "foretune.cli:main"
) -> float:
    began = time.monotonic()
    command = commands.start(folder, *words, entry=entry, environment=environment_in(folder))
    if command.wait(600) != 0:
        raise RuntimeError(f"{' '.join(words)}: {command.output}{command.errors}")
    return time.monotonic() - began


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Number of faults, and the sums of what must not happen."""
    counted = [{**row, "not_continued": not row["continued"]} for row in rows]
    return {"faults": len(rows), **{name: sum(int(row[name]) for row in counted) for name in COUNTS}}


def describe(row: Mapping[str, Any]) -> str:
    """One line about a fault."""
    bad = {name: row[name] for name in COUNTS[:-1] if row[name]}
    if not row["continued"]:
        bad["not continued"] = row["continued_message"]
    end = f"status {row['status']}, {row['message'] or 'no message'}"
    return f"{row['command']}, {row['kind']}: {row['detail']}: {end}" + (f"; BAD: {bad}" if bad else "")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the faults that are not kept, and returns the result."""
    runs_in = arguments.runs_in.resolve()
    environment = {"PYTHONPATH": f"{ROOT / '.typing'}:{ROOT}"}
    rows, new, began = [], 0, time.monotonic()
    imports = dict.fromkeys(name for command in arguments.commands for name in SUBJECTS[command].imports)
    private_mounts()  # before the process that forks the commands
    with ForkedCommands([*imports], environment) as commands:
        trials: Trials | None = None
        for fault in planned(arguments.faults, arguments.seed, arguments.commands, arguments.kinds):
            path = runs_in / f"{arguments.seed}-{fault.number:03d}.json"
            settings = {"command": fault.command, "kind": fault.kind, "seed": arguments.seed}
            if arguments.again or not path.is_file():
                if arguments.most is not None and new >= arguments.most:
                    continue
                new += 1
                template = runs_in / "prepared"
                if trials is None:
                    seconds = prepared(commands, template, arguments.dataset, arguments.commands)
                    trials = Trials(commands, template, seconds)
            made = trials
            row = kept_run(
                path,
                settings,
                lambda fault=fault, made=made: {**made.run(fault), "commit": revision(ROOT)},  # type: ignore
                again=arguments.again,
            )
            rows.append(row)
            minutes = (time.monotonic() - began) / 60
            print(f"[{len(rows)} of {arguments.faults}, {minutes:.1f} min] {describe(row)}", flush=True)
    return {"seed": arguments.seed, **summary(rows), "pending": arguments.faults - len(rows), "rows": rows}


def main() -> None:
    arguments = arguments_of()
    begun = start()
    result = run(arguments)
    notes = "Each row has the commit it was run at."
    write_result("faults", result, begun, this_machine(), notes=notes, results=arguments.out)
    print(", ".join(f"{result[name]} {name.replace('_', ' ')}" for name in ("faults", *COUNTS)))


if __name__ == "__main__":
    main()
