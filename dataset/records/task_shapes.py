"""Shape of a task: what it computes, whatever its layout and whatever it is fused with.

Splits, the sampling of new tasks and evaluation compare tasks by this definition. A layer of a network and an
operator drawn from settings may be one convolution with other epilogues or layouts: other workloads by their
hashes, but a model that was trained on the one has all but seen the other.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress

from ...compiler.operators import OperatorSettings, SettingsError, settings_from_dict
from .schema import TaskRow

_IGNORED = ("epilogue", "layout", "prepack")
"""Settings that are no part of a shape; data types and transposed matrices are set to one value each."""


def shape_of(settings: OperatorSettings) -> OperatorSettings:
    """The same operator in float32, channels first, with nothing fused; equal for tasks of one shape."""
    return settings.plain()


def shape_hash(row: TaskRow) -> str:
    """16 hexadecimal digits, equal for tasks of one shape (`shape_of`).

    A task that is described by its arguments alone has the shape of others with the same arguments; an
    imported task, which has no settings at all, is a shape of its own.
    """
    values = json.loads(row.settings)
    if not values:
        return row.workload_hash
    with suppress(SettingsError):  # of a task that no parameterised operator describes
        values = shape_of(settings_from_dict(row.operator, values)).to_dict()
    values = {name: value for name, value in values.items() if name not in _IGNORED}
    return hashlib.sha256(f"{row.operator} {json.dumps(values, sort_keys=True)}".encode()).hexdigest()[:16]
