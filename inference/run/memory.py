"""Memory that the tuning of a network needs, compared with what the machine has before the search begins."""

from __future__ import annotations

from dataclasses import dataclass

from ...compiler.host.memory import available_bytes, resident_bytes
from ...compiler.host.threads import available_cores
from ...errors import UserError
from .config import TuneConfig

_RUN_BYTES = 500e6
"""Memory of the process of a run without a network."""

_PROCESS_BYTES = 250e6
"""Memory of each process that searches, builds or times programs."""

_SEARCH_COPIES, _CHECK_COPIES, _TRIAL_COPIES = 4.5, 8.0, 6.0
"""Copies of the weights in the process of a run: while it converts and searches (PyTorch's, Relax's, folded
ones), compiles and checks (also packed ones, the library, and doubles), and times the network. They were
measured with a layer of 268 MB."""

_TIMED = 250e6, 1.5
"""Memory of a process that times a compiled form of the network: a fixed part in bytes, and copies of the
weights."""

_RIVALS = {
    "eager": (300e6, 1.5),
    "eager_channels_last": (300e6, 1.5),
    "inductor": (500e6, 2.5),
    "inductor_max_autotune": (500e6, 2.5),
    "onnxruntime": (100e6, 1.2),
    "openvino": (130e6, 1.9),
}
"""The same of the rivals; of ResNets, VGG, ViT, BERT and GPT-2, their processes took at most so much."""

_BY_ONNX = frozenset(["onnxruntime", "openvino"])
_EXPORT = 350e6, 3.0
"""The same of the process that exports the network to ONNX for a rival, before the rivals start."""


class MemoryLimitError(UserError, MemoryError):
    """The machine has too little memory for a network."""


@dataclass(frozen=True)
class MemoryNeed:
    """Estimate of the memory of a run, in bytes."""

    weights: int
    activations: int
    processes: int
    """Processes that search, build and time."""
    timed: int = 0
    """Compiled forms of the network that are timed; 0 for a run that compiles nothing."""
    rivals: tuple[str, ...] = ()

    @property
    def search_bytes(self) -> float:
        """While the network is converted and its tasks are searched."""
        return _RUN_BYTES + _SEARCH_COPIES * self.weights + self.processes * _PROCESS_BYTES

    @property
    def check_bytes(self) -> float:
        """While the network is compiled and its outputs are checked."""
        return _RUN_BYTES + _CHECK_COPIES * self.weights + 2 * self.activations if self.timed else 0.0

    @property
    def timing_bytes(self) -> float:
        """While the network is timed, without the rivals."""
        if not self.timed:
            return 0.0
        own = _RUN_BYTES + _TRIAL_COPIES * self.weights + 2 * self.activations
        return own + self.timed * self._process(*_TIMED)

    @property
    def rival_bytes(self) -> float:
        """All rivals, each in its own process."""
        engines = sum(self._process(*_RIVALS[name]) for name in self.rivals if name in _RIVALS)
        exported = self._process(*_EXPORT) if _BY_ONNX & set(self.rivals) else 0.0
        return max(engines, exported)

    @property
    def own_bytes(self) -> float:
        """The most at one time without the rivals."""
        return max(self.search_bytes, self.check_bytes, self.timing_bytes)

    @property
    def bytes(self) -> float:
        """The most at one time."""
        return max(self.own_bytes, self.timing_bytes + self.rival_bytes)

    def _process(self, fixed: float, copies: float) -> float:
        return fixed + copies * self.weights + self.activations


def need_of(config: TuneConfig, weights: int, activations: int = 0) -> MemoryNeed:
    """Estimate for a network with so many bytes of weights and of intermediate results."""
    cores = available_cores()
    searching = cores if config.search.processes is None else config.search.processes
    building = (config.workers or cores) if config.search.measure and config.executor.kind == "local" else 0
    runs = config.executor.kind == "local" or config.export is not None
    return MemoryNeed(
        weights,
        activations,
        processes=0 if config.require_database else searching + building,
        # The untuned form of a large network takes too long to be timed.
        timed=(2 if config.untuned_limit_s is None else 1) if runs else 0,
        rivals=tuple(config.rivals) if config.executor.kind == "local" else (),
    )


def check_memory(config: TuneConfig, name: str, weights: int, activations: int = 0) -> MemoryNeed:
    """Raises MemoryLimitError if the machine or its control group has less memory than the estimate."""
    need, room = need_of(config, weights, activations), available_bytes()
    if not config.check_memory or room is None:
        return need
    room += resident_bytes()
    if need.bytes <= room:
        return need
    parts = [f"weights {_gb(weights)}"]
    if activations:
        parts.append(f"intermediate results {_gb(activations)}")
    parts.append(f"copies to search, compile and check {_gb(need.own_bytes)}")
    if need.rival_bytes:
        parts.append(f"rivals {_gb(need.rival_bytes)}")
    remedies = ["free some", "use a machine with more", "or try it with check_memory=false"]
    if need.rivals and need.own_bytes <= room:
        remedies.insert(0, "leave the rivals out with rivals=[]")
    raise MemoryLimitError(
        f"network={name}: needs about {_gb(need.bytes)} of memory ({', '.join(parts)}), and {_gb(room)} are "
        f"available here; {', '.join(remedies)}"
    )


def _gb(amount: float) -> str:
    return f"{amount / 1e9:.1f} GB"
