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
"""Runs the network once on the inputs that it was made for, and returns when the outputs are ready."""

Bind = Callable[[tuple[NDArray[Any], ...]], Call]
"""Makes the call for some inputs. Earlier calls of the same network are no longer valid."""

Bounds = tuple[int | tuple[int, int], ...]
"""Extents of an input: a number, or the smallest and the largest one."""


class Form(Enum):
    """Input of an engine."""

    MODULE = "a PyTorch module"
    ONNX = "an ONNX file"
    LIBRARY = "an exported library"


@dataclass(frozen=True, eq=False)
class NetworkSource:
    """The network in the form that the engine accepts."""

    inputs: tuple[NDArray[Any], ...]
    """Example inputs in the order of the network's arguments."""
    module: nn.Module | None = None
    """Module in evaluation mode; None for the other forms."""
    path: Path | None = None
    """File with the network, for the other forms."""
    bounds: tuple[Bounds, ...] | None = None
    """Shapes of the inputs that the network must run; None if the shapes are those of `inputs`."""


class Engine(ABC):
    """Engine in a dedicated process, configured by its best practice for latency.

    The command's process uses only the class: its title and its requirements. A dedicated process creates
    an instance and uses `prepare`, `load`, the calls of the function that `load` returns, and `arrays`.
    """

    title: ClassVar[str]
    """Name in results."""
    form: ClassVar[Form]
    module: ClassVar[str]
    """Module that must be importable."""
    package: ClassVar[str]
    """Distribution whose version is reported."""
    dtypes: ClassVar[tuple[str, ...]] = ("float32",)
    """Data types that the engine offers."""
    devices: ClassVar[tuple[str, ...]] = (CPU,)
    """Kinds of device that it runs on."""

    def __init__(self, threads: int, dtype: str = "float32", device: str = CPU) -> None:
        """An engine that cannot run in `dtype` runs in float32."""
        self.threads = threads
        self.device = device
        self.dtype = dtype if dtype in self.dtypes else "float32"
        """Data type that the engine uses; `load` may correct it."""

    @classmethod
    def environment(cls, threads: int, folder: Path) -> dict[str, str]:
        """Environment variables of the process; `folder` is an empty folder for the engine's files."""
        return {"OMP_NUM_THREADS": str(threads)}

    @classmethod
    def missing(cls, device: str = CPU) -> str:
        """Requirement of the engine that this machine lacks, and its remedy; "" if nothing is missing."""
        if find_spec(cls.module) is None:
            return f"{cls.package} is not installed (pip install 'foretune[rivals]')"
        return ""

    @classmethod
    def unfit(cls, module: nn.Module) -> str:
        """Reason why the engine makes no sense for a module, or ""."""
        return ""

    @classmethod
    def version(cls) -> str:
        """Version of the package."""
        return f"{cls.package} {metadata.version(cls.package)}"

    @abstractmethod
    def prepare(self) -> None:
        """Imports the engine; this time does not count towards `ready_s`."""

    @abstractmethod
    def load(self, source: NetworkSource) -> Bind:
        """Compiles or loads the network."""

    def compilations(self) -> int | None:
        """Number of compilations so far, for an engine that compiles at its calls; None for others."""
        return None

    def arrays(self, outputs: Any) -> list[NDArray[Any]]:
        """Outputs of a call as arrays, in the order of `Network.reference_outputs`."""
        return [np.asarray(output) for output in outputs]
