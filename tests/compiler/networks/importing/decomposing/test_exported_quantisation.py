"""Quantised networks as torch.export has them: rounding, limits and channels as in PyTorch."""

from __future__ import annotations

import numpy as np
import torch
import torch.ao.quantization.fx._decomposed
from foretune.compiler.networks import to_relax
from foretune.compiler.networks.loading import Network
from foretune.compiler.networks.lowering.lowering import AS_FASTEST
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.deploy.dry_run import plain_network
from torch import nn

OPS = torch.ops.quantized_decomposed
TARGET = parse_target("llvm")


class Quantised(nn.Module):
    """Values as unsigned bytes, and the same times weights that each have a scale of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weights", torch.tensor([2, -4, 6, 8, 1], dtype=torch.int8))
        self.register_buffer("scales", torch.tensor([1.0, 0.5, 0.25, 1.0, 2.0]))
        self.register_buffer("zeros", torch.tensor([0, 2, 0, 7, 0]))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        of_tensor = (0.5, 3, 0, 255, torch.uint8)
        found = OPS.dequantize_per_tensor(OPS.quantize_per_tensor(x, *of_tensor), *of_tensor)
        of_channels = (self.scales, self.zeros, 0, -128, 127, torch.int8)
        weights = OPS.dequantize_per_channel(self.weights, *of_channels)
        return found, found * weights, OPS.quantize_per_channel(x, *of_channels)


def test_an_exported_quantised_network_has_pytorchs_values() -> None:
    """The module cannot change to evaluation mode, as the one that torchao's convert_pt2e returns."""
    x = torch.tensor([-10.0, -1.5, 0.2, 0.26, 200.0])
    module = torch.export.export(Quantised(), (x,)).module()
    network = Network(name="quantised", inputs=(x.numpy(),), module=module)
    found, product, channels = plain_network(to_relax(network, TARGET, AS_FASTEST), TARGET)(x.numpy())
    np.testing.assert_array_equal(found, np.float32([-1.5, -1.5, 0, 0.5, 126]))
    # The weights are (2, -6 / 2, 6 / 4, 1, 2).
    np.testing.assert_array_equal(product, np.float32([-3, 4.5, 0, 0.5, 252]))
    np.testing.assert_array_equal(channels, np.int8([-10, -1, 1, 7, 100]))
