"""Networks of the suite by their name in a result."""

from __future__ import annotations

from collections.abc import Mapping

from ..zoos import Entry
from .texts import TEXTS
from .visions import VISIONS
from .waves import WAVES

NETWORKS: Mapping[str, Entry] = {**TEXTS, **VISIONS, **WAVES}
