"""Whether an engine can take part in a comparison."""

from __future__ import annotations

import json
from typing import Any

from ....compiler.networks import Network
from . import onnx_export
from .base import CPU, Engine, Form


def why_not(
    kind: type[Engine], network: Network, sent: Any = None, *, exports: bool = False, device: str = CPU
) -> str:
    """Reason why an engine cannot take part, or "".

    Args:
        kind: class of the engine.
        network: the network.
        sent: arguments from which the engine's process builds the network; None if it reads a file of ours.
        exports: whether the network is exported to an ONNX file for it.
        device: kind of device that the comparison runs on, such as cpu.
    """
    if device not in kind.devices:
        return f"it does not run on {device}, as the tuned network does"
    if kind.form is Form.MODULE and network.module is None:
        return "it runs PyTorch modules, and the network is an ONNX file"
    if sent is not None and not _is_json(sent):
        return "it runs in another process, and the arguments of the network are not JSON values"
    unfit = "" if network.module is None else kind.unfit(network.module)
    return kind.missing(device) or (onnx_export.missing() if exports else "") or unfit


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True
