"""`foretune-dataset`: look at datasets, check and unite them, exchange them, describe devices."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..errors import exits_cleanly
from .store import RecordStore

# What only some commands need, TVM above all, they import themselves: it takes seconds.


def inspect(options: argparse.Namespace, console: Console) -> int:
    """Prints what a dataset holds."""
    from .datasheet.content import facts, sections, tasks_section
    from .datasheet.overview import look_at

    overview = look_at(RecordStore(options.dataset))
    lines = Table.grid(padding=(0, 2))
    for fact in facts(overview):
        lines.add_row(escape(fact.label), f"[bold]{escape(fact.value)}", f"[dim]{escape(fact.detail)}")
    console.print(lines)
    for section in [tasks_section(overview)] if options.tasks else sections(overview):
        table = Table(title=escape(section.title), title_justify="left", box=box.SIMPLE)
        for number, column in enumerate(section.columns):
            table.add_column(escape(column), justify="right" if number else "left", overflow="fold")
        for row in section.rows:
            table.add_row(*map(escape, row))
        console.print(table)
    for bad in overview.bad_shards:
        console.print(f"[yellow]{escape(str(bad.path))}: damaged, {escape(bad.reason)}; not counted")
    return 0


def verify(options: argparse.Namespace, console: Console) -> int:
    """Prints every problem of a dataset; status 1 where there is one."""
    from .verification import problems

    store = RecordStore(options.dataset).require()
    found = list(problems(store, options.replay))
    for problem in found:
        console.print(f"[red]{escape(problem)}", soft_wrap=True)
    records, tasks = len(store.columns("round")), len(store.tasks())
    verdict = f"{len(found)} problems" if found else "all is well"
    console.print(f"{tasks} tasks and {records} records; {verdict}")
    return 1 if found else 0


def merge(options: argparse.Namespace, console: Console) -> int:
    """Adds datasets to another."""
    from .merge import merge_datasets

    target = RecordStore(options.into)
    counts = merge_datasets(
        [RecordStore(folder) for folder in options.datasets], target, skip_damaged=options.skip_damaged
    )
    console.print(
        f"{escape(str(options.into))}: {counts.records} records, {counts.tasks} tasks and {counts.devices} "
        f"devices added; {counts.known} records were known"
    )
    return 0


def import_(options: argparse.Namespace, console: Console) -> int:
    """Adds a MetaSchedule database to a dataset."""
    from .exchange import import_database

    store = RecordStore(options.into)
    counts = import_database(
        options.database,
        store,
        hardware=options.hardware,
        target=options.target,
        tell=lambda text: console.print(f"[yellow]{escape(text)}", soft_wrap=True),
    )
    devices = ", ".join(hardware.name for hardware in store.hardware().values())
    console.print(
        f"{escape(str(options.into))}: {counts.added} records added, {counts.known} known, "
        f"{counts.left_out} left out; its devices: {escape(devices)}"
    )
    return 0 if counts.added + counts.known else 1


def export(options: argparse.Namespace, console: Console) -> int:
    """Writes a dataset as MetaSchedule databases."""
    from .exchange import export_database

    exported = export_database(
        RecordStore(options.dataset).require(),
        options.into,
        tasks=options.task,
        top=options.top,
        tell=lambda text: console.print(f"[yellow]{escape(text)}", soft_wrap=True),
    )
    for database in exported:
        console.print(
            f"{escape(str(database.folder))}: {database.records} records of {database.tasks} tasks, target "
            f"{escape(database.target)}, device {database.hardware_id}",
            soft_wrap=True,
        )
    return 0


def datasheet(options: argparse.Namespace, console: Console) -> int:
    """Writes the datasheet of a dataset."""
    from .datasheet.write import write_datasheet

    path = write_datasheet(RecordStore(options.dataset), label_noise=options.label_noise)
    console.print(f"wrote {escape(str(path))} and {path.with_suffix('.html').name}", soft_wrap=True)
    return 0


def hardware(options: argparse.Namespace, _: Console) -> int:
    """Prints the description of a device as JSON, ready for a file."""
    from .hardware import named_hardware, probe_cpu, probe_cuda

    if options.name == "cpu":
        from .tvm_compat import available_cores

        found = probe_cpu(options.cores or available_cores())
    elif options.name == "cuda":
        found = probe_cuda()
    else:
        found = named_hardware(options.name)
    print(found.to_json(), end="")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="foretune-dataset", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(
        name: str, run: Callable[[argparse.Namespace, Console], int], text: str, more: str
    ) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=f"{text}. {more}")
        added.set_defaults(run=run)
        return added

    dataset: dict[str, Any] = {"type": Path, "metavar": "DATASET", "help": "folder of the dataset"}
    added = command(
        "inspect",
        inspect,
        "Tell what a dataset holds",
        "Counts of tasks, records and failures by operator, samplers, devices.",
    )
    added.add_argument("dataset", **dataset)
    added.add_argument(
        "--tasks", action="store_true", help="list the tasks with their best latencies instead"
    )

    added = command(
        "verify",
        verify,
        "Check a dataset",
        "Every shard is read whole, and every record must have its task, its device and a latency or a "
        "failure, once. The status is 1 where there is a problem.",
    )
    added.add_argument("dataset", **dataset)
    added.add_argument(
        "--replay", type=int, default=0, metavar="N", help="also replay N records, drawn at random, with TVM"
    )

    added = command(
        "merge",
        merge,
        "Add datasets to another",
        "Tasks, records and devices that the other does not have are added, all or on an error none. The "
        "merged datasets stay as they are. A dataset may be merged into itself, which makes it compact.",
    )
    added.add_argument("datasets", nargs="+", **dataset)
    added.add_argument("--into", type=Path, required=True, metavar="DATASET", help="new or existing dataset")
    added.add_argument(
        "--skip-damaged",
        action="store_true",
        help="go on without damaged shards, and move those of --into to its set-aside/ (default: stop)",
    )

    added = command(
        "import",
        import_,
        "Add a MetaSchedule database to a dataset",
        "Programs that do not replay, failed ones and broken lines are named and left out. The status is 1 "
        "where nothing is left.",
    )
    added.add_argument(
        "database", type=Path, help="work_dir of a JSONDatabase: a folder with database_workload.json"
    )
    added.add_argument("--into", type=Path, required=True, metavar="DATASET", help="new or existing dataset")
    added.add_argument("--target", help='target of records that name none, such as \'{"kind": "llvm"}\'')
    added.add_argument(
        "--hardware",
        default="here",
        metavar="NAME|FILE",
        help="the device that measured: a known one such as v100, a description such as hardware-*.json of a "
        "dataset, or 'here' for this machine (default)",
    )

    added = command(
        "export",
        export,
        "Write a dataset as MetaSchedule databases",
        "Stock TVM compiles from them. A database does not know its target, so there is one folder a target "
        "and device. Failures and simulated records stay behind.",
    )
    added.add_argument("dataset", **dataset)
    added.add_argument("--into", type=Path, required=True, metavar="FOLDER", help="where the databases go")
    added.add_argument(
        "--task", action="append", default=[], help="name or workload hash of a task; may be given again"
    )
    added.add_argument("--top", type=_positive, metavar="K", help="only the K fastest programs of each task")

    added = command(
        "datasheet",
        datasheet,
        "Write the datasheet of a dataset",
        "It goes beside the shards, as datasheet.md to read in a repository and datasheet.html with plots.",
    )
    added.add_argument("dataset", **dataset)
    added.add_argument(
        "--label-noise", type=Path, metavar="JSON", help="result of benchmarks/label_noise.py on this dataset"
    )

    added = command(
        "hardware",
        hardware,
        "Print the description of a device",
        "It is JSON, for executor.hardware=FILE and for --hardware: probed here, or of a known device. Write "
        "one for a board by hand after its pattern.",
    )
    added.add_argument(
        "name",
        nargs="?",
        default="cpu",
        help="cpu or cuda, which are probed on this machine, or a known device such as v100 (default: cpu)",
    )
    added.add_argument("--cores", type=_positive, help="cores that programs use; all of them by default")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


@exits_cleanly()
def main(arguments: list[str] | None = None) -> None:
    """Entry of `foretune-dataset`; exits with 1 for a finding, 2 for an error."""
    options = _parser().parse_args(arguments)
    if status := options.run(options, Console()):
        raise SystemExit(status)


if __name__ == "__main__":
    main()
