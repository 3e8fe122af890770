"""One library for all sizes of a range, compared with other engines and with libraries of fixed shapes.

    python -m benchmarks.dynamic
    python -m benchmarks.dynamic --networks minilm --sizes 8 --minutes 15
    python -m benchmarks.dynamic --engines foretune openvino onnxruntime --extend
    python -m benchmarks.dynamic --dry

The engines:

- foretune: the library of `foretune tune` with symbols as extents
- buckets: libraries of fixed shapes at powers of two, with inputs padded and outputs cut
- fixed: a library for each of a few sizes alone, the oracle of the regret; like buckets, without a search
- fixed_searched: the same with the default search
- openvino, onnxruntime: with symbolic axes in their file
- inductor: torch.compile(dynamic=True)

Each runs in a separate process. At each size, outputs are compared with the original's, and the engines are
timed in turns. The first call after a change of the size is timed separately. Finished libraries and sizes
are kept in `outputs/benchmarks/dynamic` until the commit changes, so a stopped benchmark continues.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from foretune.compiler.networks.dynamic.dynamic_inputs import Sizes
from foretune.wording import milliseconds

from ..checkouts import commit_of
from ..common import ROOT, argument_parser, kept_run, start, this_machine, write_result
from ..kept_runs import earlier_result, notes_of
from .contest import Settings, measure
from .engines import BUCKETS, ENGINES, FIXED, FORETUNE, SEARCHES
from .libraries import library_name, wanted_libraries
from .networks import SUBJECTS, Subject, dry_subject
from .page import write_page
from .progress import LIBRARY, SIZE, OutOfTime, Progress
from .summary import network_summary, over_fixed, summary

T = TypeVar("T")

DRY = "dry"
DRY_ENGINES = (FORETUNE, BUCKETS, FIXED)


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--networks", nargs="+", choices=SUBJECTS, default=list(SUBJECTS), help="(all)")
    add("--engines", nargs="+", choices=ENGINES, help="(all)")
    add("--sizes", type=int, metavar="N", help="sizes of each network, spread over its list (all)")
    add("--runs", type=int, default=10, help="undisturbed turns of 0.1 s of each engine (%(default)s)")
    add("--minutes", type=float, help="begin no library and no size after so many")
    add("--dry", action="store_true", help="a tiny network from end to end, in less than a minute")
    add("--again", action="store_true", help="measure again, even if kept")
    add("--extend", action="store_true", help="add to the committed result of this machine")
    add("--runs-in", type=Path, default=Path("outputs/benchmarks/dynamic"), help="(%(default)s)")
    arguments = parser.parse_args(words)
    arguments.engines = arguments.engines or list(DRY_ENGINES if arguments.dry else ENGINES)
    return arguments


def subjects_of(arguments: argparse.Namespace) -> dict[str, Subject]:
    if arguments.dry:
        return {DRY: dry_subject()}
    return {name: SUBJECTS[name]() for name in arguments.networks}


def spread(values: Sequence[T], count: int) -> list[T]:
    """`count` of the values at equal distances, with the last and, of several, the first; at most all."""
    step = (len(values) - 1) / max(count - 1, 1)
    return [values[-1 - round(place * step)] for place in range(min(count, len(values)))][::-1]


def chosen_sizes(subject: Subject, count: int | None) -> list[Sizes]:
    """All sizes, or `count` of them; half are references."""
    if count is None or count >= len(subject.sizes):
        return list(subject.sizes)
    own = spread(subject.references, max(1, count // 2))
    others = [one for one in subject.sizes if one not in subject.references]
    chosen = [*own, *spread(others, count - len(own))]
    return [one for one in subject.sizes if one in chosen]


def settings_of(arguments: argparse.Namespace, subject: Subject) -> Settings:
    sizes = chosen_sizes(subject, arguments.sizes)
    return Settings(list(arguments.engines), sizes, arguments.runs, commit_of(ROOT))


def steps_of(subject: Subject, settings: Settings) -> dict[str, int]:
    """Number of steps by kind."""
    names = {
        library_name(engine, one)
        for engine in SEARCHES
        if engine in settings.engines
        for one in wanted_libraries(engine, subject, settings.sizes)
    }
    memory = FIXED in settings.engines
    if memory:
        names.add(library_name(FIXED, subject.highest))
    return {LIBRARY: 1 + len(names), SIZE: len(settings.sizes) + memory}


def describe(found: Any) -> str:
    """Result of a step in a few words."""
    if "peak_mb" in found:
        return ", ".join(f"{name} {peak_mb:,.0f} MB" for name, peak_mb in found["peak_mb"].items())
    if "timings" not in found:
        return f"built in {found['seconds']:.1f} s"
    texts = [
        f"{one['name']} {'failed' if one['error'] else milliseconds(one['latency_s'])}"
        + (" (disturbed)" if one["disturbed"] else "")
        for one in found["timings"]
    ]
    return ", ".join(texts)


def run(arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Rows and facts of each network that is done."""
    subjects = subjects_of(arguments)
    settings = {name: settings_of(arguments, subject) for name, subject in subjects.items()}
    steps = {name: steps_of(subject, settings[name]) for name, subject in subjects.items()}
    progress = Progress(steps, arguments.minutes)
    print(progress, flush=True)
    found: dict[str, dict[str, Any]] = {}
    for name, subject in subjects.items():
        folder = arguments.runs_in / name
        step = partial(progress.step, name, describe=describe)
        try:
            found[name] = kept_run(
                folder / "network.json",
                asdict(settings[name]),
                partial(measure, name, subject, settings[name], folder, step),
                again=arguments.again,
            )
        except OutOfTime as over:
            print(f"{arguments.minutes:g} minutes are over before {over}; the same command continues")
            break
        if error := found[name]["facts"]["error"]:
            print(f"{name}: {error}", flush=True)
        progress.finish(name)
    return found


def merged(
    earlier: Mapping[str, Any], found: Mapping[str, Mapping[str, Any]], commit: str | None
) -> dict[str, Any]:
    """Fields of a result, from these networks and from the other ones of an earlier result."""
    rows = [row for row in earlier.get("rows", ()) if row["network"] not in found]
    rows += [row for one in found.values() for row in one["rows"]]
    networks = {name: one for name, one in earlier.get("networks", {}).items() if name not in found}
    for name, one in found.items():
        own = [row for row in rows if row["network"] == name]
        of_rows = {**network_summary(own), **over_fixed(own, one["facts"])}
        networks[name] = {"commit": commit, **one["facts"], **of_rows}
    return {"summary": summary(rows), "networks": networks, "rows": rows}


def main(words: Sequence[str] | None = None) -> None:
    arguments = arguments_of(words)
    # Processes of engines and builds import this package, too.
    os.environ["PYTHONPATH"] = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT)])
    begun, machine = start(), this_machine()
    earlier = earlier_result(arguments, "dynamic", machine)
    found = run(arguments)
    result = {"threads": machine.cores, "turns": arguments.runs, **merged(earlier, found, commit_of(ROOT))}
    write_result(
        *("dynamic", result, begun, machine),
        variant=DRY if arguments.dry else "",
        notes=notes_of(earlier),
        results=arguments.out,
    )
    page = arguments.runs_in / "dynamic.html"
    write_page(result, page)
    print(f"wrote {page}")


if __name__ == "__main__":
    main()
