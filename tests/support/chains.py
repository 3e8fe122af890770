"""Networks of products that follow each other, and what their fused functions compute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import torch
import tvm
from foretune.compiler.codegen.compilation import CHECKED, TIMED, compile_module, entries
from foretune.compiler.networks import Lowering, Network, load_network, to_relax
from foretune.compiler.networks.alternatives.alternatives import Alternative
from foretune.compiler.networks.alternatives.fusion import fusion_alternatives, joined_arguments
from foretune.compiler.templates.cpu.programs import template_programs
from foretune.compiler.tvm_compat import as_task_module
from numpy.typing import NDArray
from torch import nn
from tvm.target import Target

from .networks import randomise_batch_norms


class LinearPair(nn.Module):
    """Two linear layers, each with ReLU, as in Table 1 of Bolt."""

    def __init__(self, depth: int = 24, middle: int = 32, columns: int = 16, also: bool = False) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(depth, middle), nn.Linear(middle, columns)
        self.also = also

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...] | torch.Tensor:
        between = torch.relu(self.first(x))
        after = torch.relu(self.second(between))
        return (after, between) if self.also else after


class ConvolutionPair(nn.Module):
    """A convolution and one that follows it, each with ReLU, as in Table 2 of Bolt."""

    def __init__(
        self,
        channels: int = 8,
        middle: int = 32,
        filters: int = 16,
        kernel: int = 3,
        stride: int = 1,
        second: Sequence[int] = (1, 1, 0),
    ) -> None:
        super().__init__()
        size, second_stride, padding = second
        self.first = nn.Conv2d(channels, middle, kernel, stride, kernel // 2)
        self.second = nn.Conv2d(middle, filters, size, second_stride, padding)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.second(torch.relu(self.first(x))))


class InvertedResidual(nn.Module):
    """Expansion, depthwise convolution and projection, with batch norms and ReLU6, as in MobileNetV2."""

    def __init__(
        self, channels: int = 16, expanded: int = 48, stride: int = 1, multiplier: int = 1, kernel: int = 3
    ) -> None:
        super().__init__()
        wide = expanded * multiplier
        self.body = nn.Sequential(
            nn.Conv2d(channels, expanded, 1, bias=False),
            nn.BatchNorm2d(expanded),
            nn.ReLU6(),
            nn.Conv2d(expanded, wide, kernel, stride, kernel // 2, groups=expanded, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU6(),
            nn.Conv2d(wide, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        )
        randomise_batch_norms(self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = self.body(x)
        return found + x if found.shape == x.shape else found


class TwoBlocks(nn.Module):
    """Two inverted residuals, so that the sum of the first is in the middle of the network."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(InvertedResidual(), InvertedResidual(expanded=32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks(x)


@dataclass(frozen=True)
class Lowered:
    """A network and the alternatives by fusion that were found in it."""

    module: tvm.IRModule
    target: Target
    network: Network
    found: list[Alternative]

    def of_length(self, length: int) -> list[Alternative]:
        """Alternatives that replace so many calls."""
        return [alternative for alternative in self.found if len(alternative.piece.names) == length]


def lowered(
    name: str, shape: Sequence[int], target: Target, dtype: str = "float32", **kwargs: object
) -> Lowered:
    """A network of this module, or of another by its import path."""
    path = name if ":" in name else f"support.chains:{name}"
    network = load_network(path, inputs=[list(shape)], kwargs=kwargs or None)
    lowering = Lowering(fusion="auto", dtype=dtype)
    module = to_relax(network, target, lowering)
    return Lowered(module, target, network, fusion_alternatives(module, target, lowering))


def outputs(alternative: Alternative, data: NDArray, target: Target) -> Iterator[tuple[object, NDArray]]:
    """Yields each template of a fused function with its output, float32; variables are `data`."""
    module = as_task_module(alternative.functions[0])
    (site,) = alternative.piece.sites
    given = joined_arguments(alternative, site.arguments)
    values = [value.value.numpy() if isinstance(value, tvm.ir.GenericConst) else data for value in given]
    for template, program in template_programs(module, target, None):
        compiled, buffers = entries(program.mod, checked=True)
        entry = CHECKED if CHECKED in buffers else TIMED
        shape, dtype = buffers[entry][-1]
        kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
        tensors = [tvm.runtime.tensor(value) for value in (*values, np.zeros(shape, kind))]
        compile_module(compiled, target)[entry](*tensors)
        yield template, tensors[-1].numpy().astype(np.float32)
