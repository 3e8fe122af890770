"""Export of a network to an ONNX file in a process of its own, which imports PyTorch while others work."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....compiler.tvm_compat import available_cores
from ..runners import EngineWorker, RunnerError


class OnnxExporter:
    """Process that exports one network; it starts at once.

    Args:
        path: the file to write.
        inputs: file of the inputs, as `save_arrays` writes it.
        arguments: arguments of `load_network` from which the process builds the network.
        dynamic: arguments of `dynamic_inputs`, for a file with symbolic extents.
    """

    def __init__(
        self, path: Path, inputs: Path, arguments: Mapping[str, Any], dynamic: Mapping[str, Any] | None = None
    ) -> None:
        self.path = path
        settings = {"inputs": str(inputs), "network": arguments, "dynamic": dynamic}
        self._worker = EngineWorker("export", settings, {"OMP_NUM_THREADS": str(available_cores())})

    def export(self, limit_s: float) -> float:
        """Writes the file, ends the process, and returns the seconds of the export. Raises RunnerError."""
        try:
            self._worker.wait(limit_s)
            seconds: float = self._worker.ask(limit_s, op="export", path=str(self.path))["export_s"]
        except RunnerError as error:
            raise RunnerError(f"the export to ONNX failed: {error}") from error
        finally:
            self.close()
        return seconds

    def close(self) -> None:
        """Ends the process."""
        self._worker.close()
