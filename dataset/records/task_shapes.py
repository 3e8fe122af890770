"""Shape of a task: its computation, whatever its layout and the operators fused with it.

Splits, the sampling of new tasks and evaluation compare tasks by this definition. A layer of a network and a
sampled operator may be the same convolution with different epilogues or layouts. Their workload hashes
differ, but a model that was trained on one has nearly seen the other.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress

from ...compiler.operators import OperatorSettings, SettingsError, settings_from_dict
from .schema import TaskRow

_IGNORED = ("epilogue", "layout", "prepack")
"""Settings that do not belong to a shape; data types and transposed matrices are set to one value each."""


def shape_of(settings: OperatorSettings) -> OperatorSettings:
    """The same operator in float32, channels first, without fused steps; equal for tasks of one shape."""
    return settings.plain()


def shape_hash(row: TaskRow) -> str:
    """16 hexadecimal digits, equal for tasks of one shape (`shape_of`).

    A task that is described by its arguments alone shares the shape of other tasks with the same arguments.
    An imported task without any settings has a shape of its own.
    """
    values = json.loads(row.settings)
    if not values:
        return row.workload_hash
    with suppress(SettingsError):  # of a task that no parameterised operator describes
        values = shape_of(settings_from_dict(row.operator, values)).to_dict()
    values = {name: value for name, value in values.items() if name not in _IGNORED}
    return hashlib.sha256(f"{row.operator} {json.dumps(values, sort_keys=True)}".encode()).hexdigest()[:16]
