"""Memory of shared surrogates: measured programs, stored next to the schedules for later runs."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..database.folder import append_notes, read_notes
from ..search.candidate import Candidate
from .base import Embedded

MEMORY_FILE = "foretune_surrogate.json"
"""File with one JSON object per line: `model`, `family`, `workload` and `trace` (a hash) of a measured
program, its `score`, its `latency_s` and its `embedding` (float16, base64)."""


class SurrogateMemory:
    """Programs that ran, with the scores of the frozen model; see MEMORY_FILE.

    A program of an earlier run is a Candidate whose `trace` is the hash of its canonical trace.
    """

    def __init__(self, path: Path | None = None, model: str = "") -> None:
        """`model` names the frozen model, because errors differ by model. A `path` of None keeps no file."""
        self._path = path
        self._model = model
        self._known: dict[tuple[str, str], dict[str, tuple[Candidate, float]]] = {}
        if path is not None:
            read_notes(path, self._take)

    def _take(self, line: Mapping[str, Any]) -> None:
        if line["model"] == self._model:
            embedding = np.frombuffer(base64.b64decode(line["embedding"]), np.float16)
            program = Candidate(line["trace"], float(line["score"]), embedding.astype(np.float32))
            found = self._known.setdefault((line["family"], line["workload"]), {})
            found[line["trace"]] = program, float(line["latency_s"])

    @classmethod
    def of(cls, folder: Path, model: str | None, *, shared: bool) -> SurrogateMemory:
        """Memory in the folder of a tuning database; without a file unless surrogates are `shared`."""
        return cls(folder / MEMORY_FILE if shared else None, model or "")

    def programs(self, family: str) -> dict[str, list[tuple[Candidate, float]]]:
        """Programs of a family with their latencies in seconds, by workload hash."""
        return {
            workload: list(found.values())
            for (name, workload), found in self._known.items()
            if name == family
        }

    def keep(self, family: str, workload: str, measured: Iterable[tuple[Embedded, float]]) -> None:
        """Adds measured programs of a task, except failed programs and programs known with this latency."""
        found = self._known.setdefault((family, workload), {})
        lines = []
        for candidate, latency_s in measured:
            name = hashlib.sha256(candidate.trace.encode()).hexdigest()[:16]
            known = found.get(name)
            if not math.isfinite(latency_s) or (known is not None and known[1] == latency_s):
                continue
            embedding = np.asarray(candidate.embedding, np.float16)
            found[name] = (
                Candidate(candidate.trace, candidate.score, embedding.astype(np.float32)),
                latency_s,
            )
            lines.append(
                {
                    "model": self._model,
                    "family": family,
                    "workload": workload,
                    "trace": name,
                    "score": candidate.score,
                    "latency_s": latency_s,
                    "embedding": base64.b64encode(embedding.tobytes()).decode(),
                }
            )
        if self._path is not None:
            append_notes(self._path, lines)
