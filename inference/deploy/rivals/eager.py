"""PyTorch eager."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from ....compiler.types import PLAIN, STORED, TYPES, WIDE
from ...run.result import EAGER
from .base import CPU, CUDA, Bind, Call, Engine, Form, NetworkSource

if TYPE_CHECKING:
    from torch import nn


class TorchEngine(Engine):
    """PyTorch engine: inference of the module with the given number of threads, or on a CUDA device.

    Float32 products use full precision: TF32 with 10-bit mantissas, PyTorch's default in convolutions, is
    off. Inputs and outputs stay on the device, as they do for the tuned network.
    """

    form = Form.MODULE
    module = package = "torch"
    dtypes = tuple(one.name for one in TYPES if one.network in (PLAIN, STORED))
    devices = (CPU, CUDA)

    @classmethod
    def missing(cls, device: str = CPU) -> str:
        """See Engine."""
        if lacking := super().missing(device):
            return lacking
        if device == CUDA:
            import torch

            if not torch.cuda.is_available():
                return "PyTorch finds no CUDA device (install PyTorch for CUDA)"
        return ""

    def prepare(self) -> None:
        """See Engine."""
        import torch

        torch.set_num_threads(self.threads)
        if self.device == CUDA:
            torch.cuda.init()
            torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
            torch.backends.cudnn.benchmark = True

    def load(self, source: NetworkSource) -> Bind:
        """See Engine."""
        import torch

        assert source.module is not None
        given = source.module.to(self.device)
        if self.dtype != WIDE:
            given = given.to(getattr(torch, self.dtype))
        module = self.fitted(given, self.tensors(source.inputs))

        def bind(arrays: tuple[NDArray[Any], ...]) -> Call:
            inputs = self.tensors(arrays)

            def call() -> Any:
                with torch.inference_mode():
                    outputs = module(*inputs)
                if self.device == CUDA:
                    torch.cuda.synchronize()
                return outputs

            return call

        return bind

    def fitted(self, module: Any, inputs: tuple[Any, ...]) -> Any:
        """The module in the form that the engine runs; `inputs` are the example inputs as tensors."""
        return module

    def tensors(self, arrays: tuple[NDArray[Any], ...]) -> tuple[Any, ...]:
        """Inputs as tensors on the device, in the form that the engine runs."""
        import torch

        found = tuple(torch.from_numpy(array).to(self.device) for array in arrays)
        if self.dtype == WIDE:
            return found
        dtype = getattr(torch, self.dtype)
        return tuple(tensor.to(dtype) if tensor.is_floating_point() else tensor for tensor in found)

    def arrays(self, outputs: Any) -> list[NDArray[Any]]:
        """See Engine."""
        from ....compiler.networks.outputs import output_arrays  # imports torch

        return output_arrays(outputs)


class Eager(TorchEngine):
    """PyTorch with its default memory layout, which runs one operator at a time."""

    title = EAGER


class EagerChannelsLast(TorchEngine):
    """PyTorch with images and convolution weights channels last, oneDNN's layout and often cuDNN's."""

    title = "PyTorch eager, channels last"

    @classmethod
    def unfit(cls, module: nn.Module) -> str:
        """See Engine."""
        if any(parameter.dim() == 4 for parameter in module.parameters()):
            return ""
        return "the network has no two-dimensional convolution"

    def fitted(self, module: Any, inputs: tuple[Any, ...]) -> Any:
        """See TorchEngine."""
        import torch

        return module.to(memory_format=torch.channels_last)

    def tensors(self, arrays: tuple[NDArray[Any], ...]) -> tuple[Any, ...]:
        """See TorchEngine."""
        import torch

        return tuple(
            tensor.to(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor
            for tensor in super().tensors(arrays)
        )
