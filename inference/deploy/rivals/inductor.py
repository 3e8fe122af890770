"""torch.compile with its default compiler, Inductor."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from .base import CPU, CUDA, Bind, NetworkSource
from .eager import TorchEngine


class Inductor(TorchEngine):
    """Inductor with constant weights (`freezing`), which folds batch norms and packs weights.

    A CUDA device runs all kernels of a call as one CUDA graph (`reduce-overhead`).
    """

    title = "torch.compile"
    modes: ClassVar[Mapping[str, str]] = {CPU: "default", CUDA: "reduce-overhead"}
    """Mode of `torch.compile` by device."""

    @classmethod
    def environment(cls, threads: int, folder: Path) -> dict[str, str]:
        """See Engine; with a shared cache, `ready_s` would depend on earlier runs."""
        return {**super().environment(threads, folder), "TORCHINDUCTOR_CACHE_DIR": str(folder)}

    def load(self, source: NetworkSource) -> Bind:
        """See Engine.

        On a CPU, calls between kernels are also compiled to C++ (`cpp_wrapper`), which made four networks 5
        to 14 % faster. PyTorch calls this option experimental, so a network that fails with it runs without
        it.
        """
        import torch
        from torch._inductor import config

        config.freezing, config.cpp_wrapper = True, self.device == CPU
        self._dynamic = source.bounds is not None
        bind = super().load(source)
        if not config.cpp_wrapper:
            return bind
        try:
            bind(source.inputs)()
        except Exception:
            torch._dynamo.reset()
            config.cpp_wrapper = False
            bind = super().load(source)
        return bind

    def compilations(self) -> int:
        """See Engine; PyTorch compiles again for sizes that its earlier code does not allow for."""
        from torch._dynamo.utils import counters

        return int(counters["stats"]["unique_graphs"])

    @classmethod
    def missing(cls, device: str = CPU) -> str:
        """See Engine."""
        if shutil.which("g++") is None and shutil.which("clang++") is None:
            return "torch.compile needs a C++ compiler (install g++)"
        return super().missing(device)

    def fitted(self, module: Any, inputs: tuple[Any, ...]) -> Any:
        """See TorchEngine."""
        import torch

        return torch.compile(module, mode=self.modes[self.device], dynamic=self._dynamic)


class InductorMaxAutotune(Inductor):
    """Inductor that also times several kernels for each matrix product and selects the fastest."""

    title = "torch.compile, max-autotune"
    modes: ClassVar[Mapping[str, str]] = dict.fromkeys((CPU, CUDA), "max-autotune")
