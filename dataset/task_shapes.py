"""Which tasks compute the same shape, whatever they are fused with.

A layer of a network and an operator drawn from settings may be one convolution with other epilogues: other
workloads by their hashes, but a model that was trained on the one has all but seen the other.
"""

from __future__ import annotations

import hashlib
import json

from .records import TaskRow


def shape_hash(row: TaskRow) -> str:
    """16 hexadecimal digits, equal for tasks of one operator that differ in epilogue and prepacking alone."""
    settings = json.loads(row.settings)
    settings.pop("epilogue", None)
    settings.pop("prepack", None)
    if not settings:  # an imported task: nothing tells its shape
        return row.workload_hash
    # Settings of before layouts were drawn do not name the one that there was.
    if settings.get("layout", "NC").startswith("NC"):
        settings.pop("layout", None)
    text = f"{row.operator} {json.dumps(settings, sort_keys=True)}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
