"""Patterns of users' code: changes in place, loops, structures, control of Python."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from .making import IMAGE, MATRIX, Table, booleans, integers, new, normal


class Counter(nn.Module):
    """A module that changes a buffer in each run."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x + 1


class Pair(NamedTuple):
    score: torch.Tensor
    place: torch.Tensor


class Residual(nn.Module):
    """Blocks of a list, and one that is shared."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(5, 5) for _ in range(3))
        self.shared = nn.Linear(5, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, block in enumerate(self.blocks):
            x = x + F.relu(block(x)) if number % 2 else self.shared(x) + block(x)
        return x


class Options(nn.Module):
    """A forward with default arguments and a dictionary as its output."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 3)
        self.scale = nn.Parameter(torch.tensor(0.5))

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None, flag: bool = True) -> dict[str, Any]:
        y = self.linear(x) * self.scale
        if mask is not None:
            y = y.masked_fill(mask, 0)
        return {"logits": y, "flag": flag, "hidden": (x, None)}


def _in_place(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.add_(1).mul_(2).clamp_(min=0)
    y[:, 0] += 5
    y[1:3] *= -1
    return y.sqrt_() if False else y


def _view_in_place(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros(4, 5)
    y.view(-1)[::2] = x.reshape(-1)[::2]
    y[:, 1:].copy_(x[:, :-1])
    return y


def _newton(x: torch.Tensor) -> torch.Tensor:
    """Square roots by six steps of Newton's method."""
    y = torch.ones_like(x)
    for _ in range(6):
        y = 0.5 * (y + x / y)
    return y


def _iou(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Intersections over unions of boxes (left, top, right, bottom)."""
    low = torch.max(a[:, None, :2], b[None, :, :2])
    high = torch.min(a[:, None, 2:], b[None, :, 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    areas = [(box[:, 2:] - box[:, :2]).prod(-1) for box in (a, b)]
    return shared / (areas[0][:, None] + areas[1][None] - shared)


def _boxes(count: int, seed: int) -> torch.Tensor:
    corners = normal(count, 2, seed=seed)
    return torch.cat([corners, corners + normal(count, 2, seed=seed + 5).abs() + 0.1], 1)


def _branch(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.sum() > 0 else x - 1


def _conditional(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))


TABLE: Table = {
    "in_place": (_in_place, MATRIX),
    "view_in_place": (_view_in_place, MATRIX),
    "input_in_place": (lambda x: x.add_(1) * 2, MATRIX.clone()),
    "relu_in_place": (new(lambda: nn.Sequential(nn.Linear(5, 3), nn.ReLU(inplace=True))), MATRIX),
    "fill": (lambda x: x.new_empty(4, 5).fill_(2.0) + x, MATRIX),
    "zero_rows": (lambda x: torch.cat([x.clone()[:2].zero_(), x[2:]]), MATRIX),
    "masked_in_place": (lambda x, m: x.clone().masked_fill_(m, -1e9).softmax(-1), MATRIX, booleans(4, 5)),
    "out_argument": (lambda x: torch.add(x, 1, out=torch.empty_like(x)), MATRIX),
    "buffer_that_changes": (new(Counter), MATRIX),
    "module_list": (new(Residual), MATRIX),
    "dictionary": (new(Options), MATRIX),
    "optional_argument": (new(Options), MATRIX, booleans(4, 3)),
    "named_tuple": (lambda x: Pair(*x.max(-1)), MATRIX),
    "nested_outputs": (lambda x: [x, (x + 1, {"a": x * 2})], MATRIX),
    "newton": (_newton, MATRIX.abs()),
    "loop_over_rows": (lambda x: torch.stack([row.softmax(-1) * k for k, row in enumerate(x)]), MATRIX),
    "list_of_heads": (
        lambda x: torch.cat([x[:, k : k + 2].mean(1, keepdim=True) for k in range(0, 4, 2)], 1),
        MATRIX,
    ),
    "iou": (_iou, _boxes(4, 1), _boxes(3, 2)),
    "box_decoding": (
        lambda a, d: torch.cat(
            [a[:, :2] + d[:, :2] * (a[:, 2:] - a[:, :2]) - 0.5 * d[:, 2:].exp(), d[:, 2:].exp()], 1
        ),
        _boxes(4, 1),
        normal(4, 4),
    ),
    "anchors": (
        lambda x: (
            x.flatten(2).mT
            + torch.stack(torch.meshgrid(torch.arange(9), torch.arange(8), indexing="ij"), -1)
            .reshape(-1, 2)
            .repeat(1, 2)
        ),
        IMAGE,
    ),
    "soft_argmax": (
        lambda x: (x.flatten(2).softmax(-1) * torch.arange(72)).sum(-1),
        IMAGE,
    ),
    "numbers_of_tensor": (lambda x: x * x.shape[1] ** -0.5 + float(x.dim()), MATRIX),
    "no_grad": (lambda x: torch.no_grad()(lambda y: y * 2)(x), MATRIX),
    "detach": (lambda x: x + (x.round() - x).detach(), MATRIX),
    "vmap": (lambda x, y: torch.vmap(torch.dot)(x, y), MATRIX, normal(4, 5, seed=1)),
    "assertion": (lambda x: _asserted(x), MATRIX),
    "checkpoint": (lambda x: torch.utils.checkpoint.checkpoint(torch.exp, x, use_reentrant=False), MATRIX),
    "random_noise": (lambda x: x + torch.randn_like(x), MATRIX),
    "training_dropout": (lambda x: F.dropout(x, 0.5, training=True), MATRIX),
    "bernoulli": (lambda x: torch.bernoulli(x.sigmoid()), MATRIX),
    "multinomial": (lambda x: torch.multinomial(x.softmax(-1), 1), MATRIX),
    "branch_on_data": (_branch, MATRIX),
    "cond": (_conditional, MATRIX),
    "item": (lambda x: x * x.max().item(), MATRIX),
    "while_on_data": (lambda n, x: x[: int(n)].sum(0), torch.tensor(2), MATRIX),
    "greedy_steps": (
        lambda x, w: torch.stack([x := torch.tanh(x @ w) for _ in range(3)]),
        normal(2, 5),
        normal(5, 5),
    ),
    "gather_tokens": (
        lambda x, n: x.take_along_dim((n - 1)[:, None, None], 1),
        normal(2, 4, 3),
        integers(2, low=1, high=4),
    ),
    "unused_input": (lambda x, y: x * 2, MATRIX, normal(3)),
    "same_tensor_twice": (lambda x: (x, x), MATRIX),
    "double_index": (lambda x, i: x[i][:, 1:][..., -1], normal(5, 4, 3), integers(3, high=5)),
}


def _asserted(x: torch.Tensor) -> torch.Tensor:
    torch._assert(x.shape[0] == 4, "four rows")
    return x * 2
