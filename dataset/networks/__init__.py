"""Networks of PyTorch or ONNX: loaded by name, import path or file, and cut into tasks with weights."""

from .extraction import (
    Network,
    NetworkExportError,
    UnknownNetworkError,
    extract_tasks,
    load_network,
    to_relax,
)

__all__ = [
    "Network",
    "NetworkExportError",
    "UnknownNetworkError",
    "extract_tasks",
    "load_network",
    "to_relax",
]
