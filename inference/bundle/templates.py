"""GPU templates of a bundle: selected for a network, checked, and merged into a tuning database."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from pathlib import Path

from ...compiler.templates.gpu.function import check_launches
from ...errors import first_line
from ..database.fastest_template import FastestTemplate, parsed_template, read_template, template_note
from ..database.folder import TEMPLATES_FILE, append_notes, read_notes, whole_lines
from .merge import MergedTask
from .reading import Warn


def template_lines(folder: Path, wanted: Collection[str] | None) -> list[str]:
    """The last line on each workload in a folder; `wanted` limits the workload hashes, and None takes all.

    Raises DatabaseUnreadableError.
    """
    names = [name for name, _ in read_notes(folder / TEMPLATES_FILE, read_template)]
    last = dict(zip(names, whole_lines(folder / TEMPLATES_FILE), strict=True))
    return [line for name, line in last.items() if wanted is None or name in wanted]


def merge_templates(
    folder: Path, lines: Sequence[str], warn: Warn
) -> list[tuple[str, FastestTemplate, MergedTask]]:
    """Merges templates into a locked folder, where the faster one of a workload stays.

    Returns the workload hash, the template and the outcome of each offered template that runs. `warn`
    receives a line about each one that is left out. Raises CannotWriteError.
    """
    own = dict(read_notes(folder / TEMPLATES_FILE, read_template))
    taken, merged = {}, []
    for name, offered in map(parsed_template, lines):
        known = own.get(name)
        before_s = None if known is None or math.isinf(known.latency_s) else known.latency_s
        runs = math.isfinite(offered.latency_s)
        if known is None or offered.latency_s < known.latency_s:
            try:
                if runs:
                    check_launches(offered.function)
            except Exception as error:  # TVM raises InternalError, TypeError, ValueError and others
                warn(f"template {offered.title}: left out, {first_line(error)}")
                continue
            taken[name] = offered
        if runs:
            merged.append((name, offered, MergedTask(before_s, offered.latency_s, int(name in taken))))
    append_notes(folder / TEMPLATES_FILE, [template_note(*item) for item in taken.items()])
    return merged
