"""Ranking losses, which depend on the order of programs within tasks alone."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


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
