"""Inputs and modules of the catalogue: each entry is a function or a `new` module, and its input tensors."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import nn

Entry: TypeAlias = tuple[Any, ...]
"""A function of tensors or a `New`, then the inputs."""
Table: TypeAlias = Mapping[str, Entry]


class New(partial[nn.Module]):
    """A module that the process of a case builds, so that the catalogue itself holds no weights."""


def new(kind: Callable[..., nn.Module], *arguments: Any, **options: Any) -> New:
    """`kind(*arguments, **options)`, later."""
    return New(kind, *arguments, **options)


class Function(nn.Module):
    """A function of tensors as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def module_of(entry: Entry) -> nn.Module:
    """Module of an entry in evaluation mode, with weights of a fixed seed."""
    made = entry[0]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = made() if isinstance(made, New) else Function(made)
    return module.eval()


def _generator(*seed: Any) -> torch.Generator:
    return torch.Generator().manual_seed(zlib.crc32(repr(seed).encode()))


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    """Standard normal float32."""
    return torch.randn(shape, generator=_generator(shape, seed))


def uniform(*shape: int, low: float = 0.0, high: float = 1.0, seed: int = 0) -> torch.Tensor:
    """Float32 in [low, high)."""
    return torch.rand(shape, generator=_generator(shape, seed)) * (high - low) + low


def half(*shape: int) -> torch.Tensor:
    """Standard normal float16."""
    return normal(*shape).half()


def integers(
    *shape: int, high: int = 8, low: int = 0, dtype: Any = torch.int64, seed: int = 0
) -> torch.Tensor:
    """Integers in [low, high)."""
    return torch.randint(low, high, shape, generator=_generator(shape, high, seed)).to(dtype)


def booleans(*shape: int, seed: int = 0) -> torch.Tensor:
    return normal(*shape, seed=seed) > 0


def positions(count: int, extent: int, seed: int = 0) -> torch.Tensor:
    """Different indices below `extent`, int64 [count]."""
    return torch.randperm(extent, generator=_generator(count, extent, seed))[:count]


IMAGE = normal(2, 4, 9, 8)
VOLUME = normal(1, 3, 5, 6, 7)
SEQUENCE = normal(2, 4, 11)
MATRIX = normal(4, 5)
