"""Hardware descriptions by name, for devices that are not at hand."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from ...errors import UserError
from .description import Hardware

_FILE = Path(__file__).with_name("named_hardware.json")
_VENDOR_WORDS = frozenset({"nvidia", "geforce", "tesla", "intel", "amd", "core"})


class UnknownHardwareError(UserError, ValueError):
    """No description has this name."""


def hardware_names() -> list[str]:
    """Sorted names that `named_hardware` accepts."""
    return sorted(_descriptions())


def named_hardware(name: str) -> Hardware:
    """Description from public specifications, with its `source` in the details.

    Case, punctuation and vendor words do not matter: "v100", "Tesla V100" and TVM's tag "nvidia/nvidia-v100"
    are the same. Raises UnknownHardwareError.
    """
    words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word and word not in _VENDOR_WORDS]
    try:
        return Hardware(**_descriptions()["-".join(words)])
    except KeyError:
        raise UnknownHardwareError(
            f"hardware={name!r} has no description; use one of {', '.join(hardware_names())}, or the path of "
            "a probed description (hardware-*.json of a dataset)"
        ) from None


@cache
def _descriptions() -> dict[str, dict[str, Any]]:
    return json.loads(_FILE.read_text(encoding="utf-8"))
