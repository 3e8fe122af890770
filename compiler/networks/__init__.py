"""Networks of PyTorch or ONNX: loading by name, import path or file, and extraction of their tasks.

Loading needs no TVM, so that a process which runs a network in another engine does not import it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .loading import Network, UnknownNetworkError, load_network

if TYPE_CHECKING:
    from .alternatives.alternative_kinds import find_alternatives
    from .extraction import NetworkExportError, extract_tasks, task_names, to_relax
    from .lowered import LoweredNetwork, lowered_network
    from .lowering.buildable import keeps_layout, recast_operators
    from .lowering.lowering import AS_FASTEST, Lowering

__all__ = [
    "AS_FASTEST",
    "LoweredNetwork",
    "Lowering",
    "Network",
    "NetworkExportError",
    "UnknownNetworkError",
    "extract_tasks",
    "find_alternatives",
    "keeps_layout",
    "load_network",
    "lowered_network",
    "recast_operators",
    "task_names",
    "to_relax",
]

_WITH_TVM = {
    "AS_FASTEST": "lowering.lowering",
    "LoweredNetwork": "lowered",
    "Lowering": "lowering.lowering",
    "NetworkExportError": "extraction",
    "extract_tasks": "extraction",
    "find_alternatives": "alternatives.alternative_kinds",
    "keeps_layout": "lowering.buildable",
    "lowered_network": "lowered",
    "recast_operators": "lowering.buildable",
    "task_names": "extraction",
    "to_relax": "extraction",
}


def __getattr__(name: str) -> Any:
    """Imports what needs TVM on first use."""
    if name not in _WITH_TVM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_WITH_TVM[name]}", __name__), name)
