"""Training losses of a batch that may contain several tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

from ...errors import UserError
from ..scaling.columns import LOG_VARIANCE, SHARES

_PRIMARY = ("mse", "rank", "l1", "huber", "lambda_rank", "nll")


class LossError(UserError, ValueError):
    """The weights of the losses are invalid."""


@dataclass(frozen=True)
class LossConfig:
    """Weights of the losses in the sum that training minimises.

    Losses of the primary output:

    - `mse`:         mean square error, which gave One-Shot Tuner faster programs than ranking
                     (section 4.1.4);
    - `l1`:          mean absolute error;
    - `huber`:       quadratic error up to `huber_delta`, linear beyond;
    - `rank`:        pairwise logistic loss within tasks, on outputs times `sigma`;
    - `lambda_rank`: the same, with each pair weighted by the change of NDCG that swapping it causes. With
                     ranking losses alone the outputs have no scale, so RMSE and R2 are meaningless;
    - `nll`:         negative log likelihood of a normal distribution around the output, with the variance
                     that the model predicts (`model.arguments.variance=true`).

    `offset` weights, within `mse`, the part of the error that all programs of a task share. A score compares
    a program with the fastest that was found, which is nearer to the best of its task in one dataset than in
    another: a model cannot tell, and its ranks do not depend on it.

    `outputs` weights the mean square errors of the other outputs that the model has.
    """

    mse: float = 1.0
    rank: float = 0.0
    l1: float = 0.0
    huber: float = 0.0
    lambda_rank: float = 0.0
    nll: float = 0.0
    offset: float = 1.0
    huber_delta: float = 0.1
    sigma: float = 1.0
    nll_beta: float = 0.5  # see gaussian_nll
    outputs: dict[str, float] = field(default_factory=lambda: dict.fromkeys(SHARES, 1.0))

    def __post_init__(self) -> None:
        weights = {name: getattr(self, name) for name in _PRIMARY}
        if min(weights.values()) < 0 or sum(weights.values()) == 0:
            shown = ", ".join(f"loss.{name}={value}" for name, value in weights.items())
            raise LossError(f"{shown}: set all to 0 or more, and at least one above 0")
        if self.offset < 0:
            raise LossError(f"loss.offset={self.offset}: set it to 0 or more; 1 is the plain squared error")
        if self.huber_delta <= 0 or self.sigma <= 0 or not 0 <= self.nll_beta <= 1:
            raise LossError(
                f"loss.huber_delta={self.huber_delta}, loss.sigma={self.sigma}, loss.nll_beta="
                f"{self.nll_beta}: set the first two above 0 and the last within [0, 1]"
            )
        if set(self.outputs) - set(SHARES) or min(self.outputs.values(), default=0) < 0:
            raise LossError(
                f"loss.outputs={dict(self.outputs)}: give weights of 0 or more to {' and '.join(SHARES)}; "
                "the primary output has loss.mse and its like"
            )

    def check(self, columns: Sequence[str]) -> None:
        """Raises LossError unless the losses suit a model with these columns."""
        if (LOG_VARIANCE in columns) != (self.nll > 0):
            variance = "true" if LOG_VARIANCE in columns else "false"
            raise LossError(
                f"loss.nll={self.nll} with model.arguments.variance={variance}: either needs the other; set "
                "loss.nll=1 and model.arguments.variance=true, or loss.nll=0 and false"
            )

    def __call__(
        self, output: Tensor, target: Tensor, group: Tensor, log_variance: Tensor | None = None
    ) -> Tensor:
        """Loss of primary outputs [n] against targets [n].

        Rows with equal `group` [n] are of one task; ranking losses compare these. `nll` needs
        `log_variance` [n].
        """
        loss = output.new_zeros(())
        if self.mse:
            loss = loss + self.mse * squared_error(output, target, group, self.offset)
        if self.l1:
            loss = loss + self.l1 * F.l1_loss(output, target)
        if self.huber:
            loss = loss + self.huber * F.huber_loss(output, target, delta=self.huber_delta)
        if self.rank:
            loss = loss + self.rank * rank_loss(self.sigma * output, target, group)
        if self.lambda_rank:
            loss = loss + self.lambda_rank * lambda_rank_loss(output, target, group, self.sigma)
        if self.nll:
            if log_variance is None:
                raise LossError(f"loss.nll={self.nll} needs model.arguments.variance=true")
            loss = loss + self.nll * gaussian_nll(output, log_variance, target, self.nll_beta)
        return loss

    def of_columns(
        self, columns: Tensor, names: Sequence[str], target: Tensor, shares: Tensor, group: Tensor
    ) -> Tensor:
        """Loss of all columns [n, len(names)] of a model.

        `target` [n] belongs to the primary output, `shares` [n, k] to the columns among SHARES, in order.
        """
        of = dict(zip(names, columns.unbind(dim=-1), strict=True))
        loss = self(columns[:, 0], target, group, of.get(LOG_VARIANCE))
        for at, name in enumerate(name for name in names if name in SHARES):
            loss = loss + self.outputs.get(name, 1.0) * F.mse_loss(of[name], shares[:, at])
        return loss


def squared_error(output: Tensor, target: Tensor, group: Tensor, offset: float = 1.0) -> Tensor:
    """Mean square error of outputs [n] against targets [n], with the mean error of each group weighted.

    The square error of a group is its variance and the square of its mean error; the latter counts `offset`
    times.
    """
    error = output - target
    loss = error.square().mean()
    if offset == 1:
        return loss
    _, of_row, rows = group.unique(return_inverse=True, return_counts=True)
    shared = error.new_zeros(len(rows)).index_add(0, of_row, error) / rows
    return loss - (1 - offset) * shared[of_row].square().mean()


def gaussian_nll(mean: Tensor, log_variance: Tensor, target: Tensor, beta: float = 0.0) -> Tensor:
    """Negative log likelihood of targets under normal distributions, without its constant; all [n].

    Mean of v^beta * (ln v + (y - m)^2 / v) / 2 with v = exp(log_variance), and no gradient through v^beta.
    With beta = 0 it is the plain likelihood (Nix and Weigend 1994), where badly fitted rows get a large
    variance and then a small gradient. With beta near 1 the gradient is like the gradient of the square error
    (Seitzer et al., "On the Pitfalls of Heteroscedastic Uncertainty Estimation with Probabilistic Neural
    Networks", ICLR 2022).
    """
    each = 0.5 * (log_variance + (target - mean).square() * (-log_variance).exp())
    return (each * (beta * log_variance.detach()).exp()).mean()


def rank_loss(output: Tensor, target: Tensor, group: Tensor) -> Tensor:
    """Pairwise logistic loss within groups, with pairs weighted by the gap of their targets; all [n].

    Sum over pairs with t_i > t_j of (t_i - t_j) * ln(1 + exp(o_j - o_i)), divided by the sum of (t_i - t_j).
    Swapping two nearly equal programs thus costs almost nothing. 0 for a batch without pairs in a group.
    """
    gap = target[:, None] - target[None, :]  # [n, n]
    weight = torch.where(group[:, None] == group[None, :], gap, 0.0).clamp(min=0)
    swapped = F.softplus(output[None, :] - output[:, None])  # [n, n]
    return (weight * swapped).sum() / weight.sum().clamp(min=1e-12)


def lambda_rank_loss(output: Tensor, target: Tensor, group: Tensor, sigma: float = 1.0) -> Tensor:
    """LambdaRank loss within groups, averaged over the groups with a pair to order; all [n].

    Sum over pairs with t_i > t_j of |G_i - G_j| * |1/D_i - 1/D_j| * ln(1 + exp(-sigma (o_i - o_j))), where
    D_i = log2(1 + rank of i by the outputs) and G_i = (2^t_i - 1) / best DCG of the group. The weight is the
    change of NDCG if i and j are swapped, so pairs at the top count most. From Burges, "From RankNet to
    LambdaRank to LambdaMART", 2010, in the form of Wang et al., "The LambdaLoss Framework for Ranking Metric
    Optimization", CIKM 2018 (there with log2); TenSet and TLP train with it. 0 for a batch without pairs in a
    group.
    """
    same_group = group[:, None] == group[None, :]  # [n, n]
    with torch.no_grad():
        discount = torch.log2(1 + _ranks(output, same_group))  # [n]
        gain = torch.exp2(target) - 1  # [n]
        ideal = gain / torch.log2(1 + _ranks(target, same_group))
        best_dcg = (same_group * ideal[None, :]).sum(dim=1).clamp(min=1e-12)  # [n], of the row's group
        gain = gain / best_dcg
        swap = (gain[:, None] - gain[None, :]).abs() * (1 / discount[:, None] - 1 / discount[None, :]).abs()
        above = same_group & (target[:, None] > target[None, :])
        # Each group with a pair has at least one best row; ties share the count.
        is_best = above.any(dim=1) & ~above.any(dim=0)
        ties = (same_group & is_best[None, :]).sum(dim=1).clamp(min=1)
        groups = (is_best / ties).sum().clamp(min=1)
    lost = F.softplus(-sigma * (output[:, None] - output[None, :]))  # [n, n]
    return (above * swap * lost).sum() / groups


def _ranks(value: Tensor, same_group: Tensor) -> Tensor:
    """Rank of each row in its group by descending value, from 1, ties by row; [n] and [n, n] -> [n]."""
    row = torch.arange(len(value), device=value.device)
    ahead = (value[None, :] > value[:, None]) | ((value[None, :] == value[:, None]) & (row < row[:, None]))
    return 1 + (same_group & ahead).sum(dim=1)
