"""Features of a dataset computed in this process: processes take longer to start than to compute a few."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from foretune.dataset.features import dataset


class InThisProcess:
    """Replacement of a process pool that runs everything in this process."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        self.map = map

    def __enter__(self) -> InThisProcess:
        return self

    def __exit__(self, *error: object) -> None:
        return None


@contextmanager
def features_in_this_process() -> Iterator[None]:
    """Loads features without other processes in the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dataset, "process_pool", InThisProcess)
        yield
