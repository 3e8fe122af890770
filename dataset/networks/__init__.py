"""Networks of PyTorch or ONNX: loaded by name, import path or file, and cut into tasks with weights."""

from .extraction import (
    Network,
    NetworkExportError,
    UnknownNetworkError,
    extract_tasks,
    load_network,
    to_relax,
)
from .lowering import AS_FASTEST, Lowering

__all__ = [
    "AS_FASTEST",
    "Lowering",
    "Network",
    "NetworkExportError",
    "UnknownNetworkError",
    "extract_tasks",
    "load_network",
    "to_relax",
]
