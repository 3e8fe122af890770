"""Training losses over a batch that may mix several tasks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import UserError


class LossError(UserError, ValueError):
    """The weights of the losses do not make a loss."""


@dataclass(frozen=True)
class LossConfig:
    """Weights of the mean square error and of the ranking loss in the sum that is minimised.

    The paper found MSE to give faster programs than ranking (One-Shot Tuner section 4.1.4). With `mse` at 0
    the outputs have no scale: they rank, but RMSE and R2 say nothing.
    """

    mse: float = 1.0
    rank: float = 0.0

    def __post_init__(self) -> None:
        if min(self.mse, self.rank) < 0 or self.mse + self.rank == 0:
            raise LossError(
                f"loss.mse={self.mse}, loss.rank={self.rank}: set both to 0 or more, and one above 0"
            )

    def __call__(self, output: Tensor, target: Tensor, group: Tensor) -> Tensor:
        """Loss of outputs [n] against targets [n]; rows with equal `group` [n] are rivals."""
        loss = output.new_zeros(())
        if self.mse:
            loss = loss + self.mse * F.mse_loss(output, target)
        if self.rank:
            loss = loss + self.rank * rank_loss(output, target, group)
        return loss


def rank_loss(output: Tensor, target: Tensor, group: Tensor) -> Tensor:
    """Pairwise logistic loss within groups, each pair weighted by the gap between its targets.

    sum over pairs with t_i > t_j of (t_i - t_j) * ln(1 + exp(o_j - o_i)), divided by sum of (t_i - t_j): a
    pair of nearly equal programs costs next to nothing when it is swapped. 0 for a batch without rivals.
    """
    gap = target[:, None] - target[None, :]  # [n, n]
    weight = torch.where(group[:, None] == group[None, :], gap, 0.0).clamp(min=0)
    swapped = F.softplus(output[None, :] - output[:, None])  # [n, n]
    return (weight * swapped).sum() / weight.sum().clamp(min=1e-12)
