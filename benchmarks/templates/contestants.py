"""Process of one contestant: runs layers from TVM or from oneDNN on a given number of threads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from foretune.compiler.host.meter import Meter
from foretune.dataset.measure.worker.loop import main
from foretune.inference.deploy.turn import timed_turn

if TYPE_CHECKING:
    import torch
    from tvm.target import Target


class Contestant:
    """Operations on calls by name."""

    def __init__(self) -> None:
        self._calls: dict[str, Callable[[], object]] = {}
        self._meter = Meter()

    def usable(self) -> bool:
        """See Operations."""
        return True

    def turn(self, name: str, seconds: float) -> dict[str, Any]:
        """Fields of a Turn of the call with this name."""
        return asdict(timed_turn(self._calls[name], seconds, meter=self._meter))

    def clear(self) -> None:
        """Forgets all calls."""
        self._calls.clear()


class OfTvm(Contestant):
    """Scheduled modules."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self._target = target

    def prepare(self) -> None:
        """See Operations."""

    def peak(self, dtype: str) -> dict[str, float]:
        """Peak in 1e9 operations a second, by each instruction of a data type."""
        from foretune.compiler.targets import require_instructions

        from .peak import peak_gflops
        from .shapes import TYPES

        instructions = require_instructions(self._target, *TYPES[dtype])
        return {one.name: peak_gflops(one, self._target) for one in instructions}

    def load(self, name: str, module: str) -> None:
        """Compiles a scheduled module in TVM's JSON; its arguments stay in the caches."""
        from foretune.compiler.tvm_compat import module_from_json

        from .shapes import warm_call

        self._calls[name] = warm_call(module_from_json(module), self._target)

    def search(self, task: str, trials: int) -> dict[str, Any]:
        """The fastest program that stock MetaSchedule finds by its default rules, as TVM's JSON.

        Foretune's builder and runner measure for it: the programs are the same, and the search is faster.
        """
        from foretune.compiler.described_task import described_task
        from foretune.compiler.tvm_compat import module_from_json

        from ..tuning_curves.tuners import run_metaschedule

        told = described_task(module_from_json(task), "", 1)
        run = run_metaschedule("stock_measured_by_foretune", told, self._target, trials, seed=0)
        return {"module": run["steps"][-1][2] if run["steps"] else None, "seconds": run["seconds"]}


class OfOneDnn(Contestant):
    """Layers of oneDNN as PyTorch's compiler calls them: weights packed ahead, then bias and ReLU."""

    def __init__(self, threads: int) -> None:
        super().__init__()
        self._threads = threads

    def prepare(self) -> None:
        """See Operations."""
        import torch

        torch.set_num_threads(self._threads)

    def load(self, name: str, dtype: str, layer: Mapping[str, int]) -> dict[str, str]:
        """Packs the weights of a layer, given by the fields of a Linear or a Convolution."""
        import torch

        call = (linear if "depth" in layer else convolution)(dtype, **layer)
        with torch.inference_mode():
            call()

        def inferred() -> object:
            with torch.inference_mode():
                return call()

        self._calls[name] = inferred
        return {"version": f"torch {torch.__version__}"}


def linear(dtype: str, rows: int, columns: int, depth: int) -> Callable[[], torch.Tensor]:
    """A product of `values` with these rows and columns; sums of uint8 come out as float32."""
    import torch

    data, weight = values((rows, depth), dtype), values((columns, depth), _weights(dtype))
    if dtype == "uint8":
        scales, bias = _scales(columns), torch.ones(columns)
        packed = torch.ops.onednn.qlinear_prepack(weight, [rows, depth])
        multiply = torch.ops.onednn.qlinear_pointwise
        return lambda: multiply(
            *(data, 1.0, 0, packed, *scales, bias, 1.0, 0, torch.float32, "relu", [], ""),
        )
    bias = torch.ones(columns, dtype=data.dtype)
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, rows)
    return lambda: torch.ops.mkldnn._linear_pointwise(data, packed, bias, "relu", [], "")


def convolution(
    dtype: str, size: int, channels: int, filters: int, kernel: int
) -> Callable[[], torch.Tensor]:
    """A convolution of `values` that keeps the size, channels last; sums of uint8 come out as float32."""
    import torch

    last = torch.channels_last
    data = values((1, channels, size, size), dtype).to(memory_format=last)
    weight = values((filters, channels, kernel, kernel), _weights(dtype))
    padding, ones = [kernel // 2] * 2, [1, 1]
    if dtype == "uint8":
        scales, bias = _scales(filters), torch.ones(filters)
        packed = torch.ops.onednn.qconv_prepack(
            *(weight, scales[0], 1.0, 0, ones, padding, ones, 1, list(data.shape)),
        )
        convolve = torch.ops.onednn.qconv2d_pointwise
        window = ones, padding, ones, 1
        return lambda: convolve(
            *(data, 1.0, 0, packed, *scales, bias, *window, 1.0, 0, torch.float32, "relu", [], ""),
        )
    bias = torch.ones(filters, dtype=data.dtype)
    packed = torch.ops.mkldnn._reorder_convolution_weight(weight, padding, ones, ones, 1, list(data.shape))
    run = torch.ops.mkldnn._convolution_pointwise
    return lambda: run(data, packed, bias, padding, ones, ones, 1, "relu", [], "")


def values(shape: tuple[int, ...], dtype: str) -> torch.Tensor:
    """Small whole numbers, the same for every call."""
    import torch

    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 8, shape, generator=generator).to(getattr(torch, dtype))


def _weights(dtype: str) -> str:
    return "int8" if dtype == "uint8" else dtype


def _scales(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Scales and zero points of the weights' columns."""
    import torch

    return torch.ones(count), torch.zeros(count, dtype=torch.int32)


def _make(role: str, target: str, config: Mapping[str, Any], settings: dict[str, Any]) -> Contestant:
    if role == "onednn":
        return OfOneDnn(**settings)
    from tvm.target import Target

    return OfTvm(Target(json.loads(target)))


if __name__ == "__main__":
    main(_make)
