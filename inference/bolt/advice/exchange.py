"""Exchange of a layer's activation: the same programs, followed by another activation.

A search finds a different program for each activation, and chance can make one better. The cost of an
activation is a small part of the layer's latency, so that only equal tiles and loops reveal it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ....compiler.replay import replay, trace_to_json
from ....compiler.task import Task
from ....compiler.templates.cpu.overflow import AccumulatorOverflowError
from ....compiler.templates.cpu.programs import AnyTemplate, template_programs
from ....compiler.tvm_compat import make_tune_context
from ....dataset.hardware import Hardware
from ...spaces.base import DesignSpace
from ...starts.adapted import ProgramAdapter
from .latencies import LatencySource, TaskPrograms
from .layers import Layer


@dataclass(frozen=True)
class Cost:
    """Latencies of a layer with its own activation and with another one, in the same programs."""

    own_s: float
    other_s: float
    """Both latencies are the lowest among the programs that run with both activations."""
    programs: int
    """Number of programs that run with both activations."""
    turns_s: list[float]
    """Seconds that the other activation adds in each turn, in its fastest program of the turn."""


class Exchange:
    """Transfers programs of a task to another task that differs in its activation only."""

    def __init__(
        self, target: Target, hardware: Hardware | None, space: DesignSpace, templates: int = 8
    ) -> None:
        """Creates an exchange.

        Args:
            space: design space whose postprocessors check the programs.
            templates: number of templates of a task among which a program is looked up, the most promising
                first.
        """
        self._target = target
        self._hardware = hardware
        self._space = space
        self._count = templates
        self._adapter = ProgramAdapter(target, space)

    def programs(self, own: Task, traces: Sequence[str], other: Task) -> list[str | None]:
        """Trace of `other` for each trace of `own`; None for a program without an equivalent in `other`."""
        found = [self._adapter(own, trace, other) for trace in traces]
        if None in found:
            templates = {trace: template for template, trace in self._templates(own)}
            wanted = dict(self._templates(other)) if templates else {}
            for number, trace in enumerate(traces):
                if found[number] is None and trace in templates:
                    found[number] = wanted.get(templates[trace])
        return found

    def context(self, task: Task) -> ms.TuneContext:
        """Context that replays programs of the task."""
        generator = self._space.generator(self._target)
        return make_tune_context(task.mod, self._target, seed=0, name=task.name, space=generator, threads=1)

    def _templates(self, task: Task) -> Iterator[tuple[AnyTemplate, str]]:
        """The most promising templates of a task with their traces."""
        found = template_programs(task.mod, self._target, self._hardware)
        with suppress(AccumulatorOverflowError):
            for template, schedule in islice(found, self._count):
                yield template, trace_to_json(schedule.trace)


def activation_costs(
    layer: Layer, names: Sequence[str], traces: Sequence[str], exchange: Exchange, source: LatencySource
) -> dict[str, Cost]:
    """Cost of each activation instead of the layer's own, by name; an activation without a program is absent.

    `traces` are programs of `layer.task`. All programs are timed under the same conditions, including the
    programs with the layer's own activation.
    """
    every = [layer.variant.activation, *(name for name in names if name != layer.variant.activation)]
    tasks = [layer.changed(replace(layer.variant, activation=name)) for name in every]
    rows, programs = [], []
    for task in tasks:
        of_task = traces if task is tasks[0] else exchange.programs(tasks[0], traces, task)
        context = exchange.context(task)
        candidates = [None if trace is None else replay(context, trace) for trace in of_task]
        rows.append([candidate is not None for candidate in candidates])
        programs.append(TaskPrograms(task, context, [one for one in candidates if one is not None]))
    latencies = []
    for row, seconds in zip(rows, source.turns_s(programs), strict=True):
        left = iter(seconds)
        latencies.append([next(left) if has else [] for has in row])
    found = {name: _cost(latencies[0], of_name) for name, of_name in zip(every, latencies, strict=True)}
    return {name: cost for name, cost in found.items() if cost is not None}


def _cost(own: Sequence[Sequence[float]], other: Sequence[Sequence[float]]) -> Cost | None:
    """Cost from the seconds of each program in each turn; None if no program ran in all turns with both."""
    pairs = [
        (mine, others)
        for mine, others in zip(own, other, strict=True)
        if mine and others and all(map(math.isfinite, [*mine, *others]))
    ]
    if not pairs:
        return None
    owns, others = (np.min(programs, axis=0) for programs in zip(*pairs, strict=True))
    return Cost(float(owns.min()), float(others.min()), len(pairs), (others - owns).tolist())
