"""Fastest GPU template of a task or of joined calls, as a line of the tuning database.

This module does not import TVM, so that a bundle can be shown in an instant.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...dataset.records.database_lines import FAILED_S

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc


@dataclass(frozen=True)
class FastestTemplate:
    """The fastest template for a task or for joined calls."""

    latency_s: float
    """inf if no template can be built."""
    title: str
    module: str
    """TVM's JSON of a module whose `main` launches the template."""

    @property
    def function(self) -> PrimFunc:
        """Raises ValueError for a module that TVM cannot read."""
        import tvm

        return tvm.ir.load_json(self.module)["main"]


def template_note(workload_hash: str, template: FastestTemplate) -> dict[str, Any]:
    """The JSON object of a line of TEMPLATES_FILE."""
    latency_s = template.latency_s if math.isfinite(template.latency_s) else None
    return {
        **{"workload": workload_hash, "latency_s": latency_s},
        **{"title": template.title, "module": template.module},
    }


def read_template(note: Mapping[str, Any]) -> tuple[str, FastestTemplate]:
    """Workload hash and template of a line; raises LookupError, TypeError or ValueError for a faulty one."""
    latency_s = note["latency_s"]
    seconds = math.inf if latency_s is None else float(latency_s)
    return str(note["workload"]), FastestTemplate(seconds, str(note["title"]), str(note["module"]))


def parsed_template(line: str) -> tuple[str, FastestTemplate]:
    """`read_template` for a line that somebody else may have written; raises ValueError for a faulty one."""
    note = json.loads(line)
    if not isinstance(note, dict) or note.keys() != template_note("", FastestTemplate(0, "", "")).keys():
        raise ValueError("no GPU template")
    latency_s, texts = note["latency_s"], [note[name] for name in ("workload", "title", "module")]
    if not all(isinstance(text, str) and text.isprintable() for text in texts[:2]):
        raise ValueError("its workload or its title is no printable text")
    if not isinstance(texts[2], str):
        raise ValueError("its module is no text")
    is_number = isinstance(latency_s, float | int) and not isinstance(latency_s, bool)
    if latency_s is not None and not (is_number and 0 < latency_s < FAILED_S):
        raise ValueError(f"its latency {latency_s!r:.40} is no time in seconds")
    return read_template(note)
