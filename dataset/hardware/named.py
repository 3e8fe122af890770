"""Hardware descriptions by name or from a file, for devices that are not available locally."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...compiler.hardware import Hardware
from ...errors import UserError

if TYPE_CHECKING:
    from tvm.target import Target

_FILE = Path(__file__).with_name("named_hardware.json")
_KINDS = {"llvm": "cpu", "cuda": "cuda"}
"""Kind of device for each kind of target; a device of any kind may run the programs of other targets."""
_VENDOR_WORDS = frozenset({"nvidia", "geforce", "tesla", "intel", "amd", "core"})


class UnknownHardwareError(UserError, ValueError):
    """No description has this name."""


class UnfitHardwareError(UserError, ValueError):
    """A description cannot be read, or its device cannot run the programs of a target."""


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


def described_hardware(name: str, target: Target) -> Hardware:
    """Description of a device for programs of `target`: the path of a file, or a name for `named_hardware`.

    Raises UnknownHardwareError and UnfitHardwareError.
    """
    path = Path(name)
    if path.is_file():
        try:
            hardware = Hardware.from_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UnfitHardwareError(
                f"hardware={name}: {error}; foretune dataset hardware writes descriptions"
            ) from error
    else:
        hardware = named_hardware(name)
    if hardware.kind != _KINDS.get(target.kind.name, hardware.kind):
        raise UnfitHardwareError(
            f"hardware={name}: {hardware.name} cannot run programs of the target {target}; use the device "
            "that measures them"
        )
    return hardware


@cache
def _descriptions() -> dict[str, dict[str, Any]]:
    return json.loads(_FILE.read_text(encoding="utf-8"))
