"""Interface of an engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import nn

CPU, CUDA = "cpu", "cuda"

Call = Callable[[], Any]
"""One run of the network on the example inputs, which returns when the outputs are there."""


class Form(Enum):
    """Input of an engine."""

    MODULE = "a PyTorch module"
    ONNX = "an ONNX file"
    LIBRARY = "an exported library"


@dataclass(frozen=True, eq=False)
class NetworkSource:
    """The network that an engine is given, in the form that it takes."""

    inputs: tuple[NDArray[Any], ...]
    """Example inputs in the order of the network's arguments."""
    module: nn.Module | None = None
    """In evaluation mode; None for the other forms."""
    path: Path | None = None
    """File of the other forms."""


class Engine(ABC):
    """Engine in the process that it has for itself, at its best practice for latency.

    The command's process uses the class alone: its title, what it needs. A process of its own makes an
    instance and uses `prepare`, `load`, the call that `load` returns, and `arrays`.
    """

    title: ClassVar[str]
    """Name in results."""
    form: ClassVar[Form]
    module: ClassVar[str]
    """Module that must be importable."""
    package: ClassVar[str]
    """Distribution whose version is reported."""
    dtypes: ClassVar[tuple[str, ...]] = ("float32",)
    """Data types that it can be asked for."""
    devices: ClassVar[tuple[str, ...]] = (CPU,)
    """Kinds of device that it runs on."""

    def __init__(self, threads: int, dtype: str = "float32", device: str = CPU) -> None:
        """An engine that cannot run in `dtype` runs in float32."""
        self.threads = threads
        self.device = device
        self.dtype = dtype if dtype in self.dtypes else "float32"
        """Data type that it runs in; `load` may correct it."""

    @classmethod
    def environment(cls, threads: int, folder: Path) -> dict[str, str]:
        """Environment variables of the process; `folder` is an empty one for what the engine writes."""
        return {"OMP_NUM_THREADS": str(threads)}

    @classmethod
    def missing(cls, device: str = CPU) -> str:
        """Requirement of the engine that this machine lacks, and its remedy; "" where nothing is lacking."""
        if find_spec(cls.module) is None:
            return f"{cls.package} is not installed (pip install 'foretune[rivals]')"
        return ""

    @classmethod
    def unfit(cls, module: nn.Module) -> str:
        """Why the engine is pointless for a module; "" where it is not."""
        return ""

    @classmethod
    def version(cls) -> str:
        """Version of the package."""
        return f"{cls.package} {metadata.version(cls.package)}"

    @abstractmethod
    def prepare(self) -> None:
        """Imports the engine, which is no part of the time to a runnable network."""

    @abstractmethod
    def load(self, source: NetworkSource) -> Call:
        """Compiles or loads the network."""

    def arrays(self, outputs: Any) -> list[NDArray[Any]]:
        """Outputs of a call as arrays, in the order of `Network.reference_outputs`."""
        return [np.asarray(output) for output in outputs]
