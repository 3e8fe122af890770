"""Losses that look at the order of programs within their tasks only."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def rank_loss(output: Tensor, target: Tensor, group: Tensor) -> Tensor:
    """Pairwise logistic loss within groups, each pair weighted by the gap between its targets; all [n].

    sum over pairs with t_i > t_j of (t_i - t_j) * ln(1 + exp(o_j - o_i)), divided by sum of (t_i - t_j): a
    pair of nearly equal programs costs next to nothing when it is swapped. 0 for a batch without rivals.
    """
    gap = target[:, None] - target[None, :]  # [n, n]
    weight = torch.where(group[:, None] == group[None, :], gap, 0.0).clamp(min=0)
    swapped = F.softplus(output[None, :] - output[:, None])  # [n, n]
    return (weight * swapped).sum() / weight.sum().clamp(min=1e-12)


def lambda_rank_loss(output: Tensor, target: Tensor, group: Tensor, sigma: float = 1.0) -> Tensor:
    """LambdaRank within groups, averaged over the groups with a pair to order; all [n].

    sum over pairs with t_i > t_j of |G_i - G_j| * |1/D_i - 1/D_j| * ln(1 + exp(-sigma (o_i - o_j))), where
    D_i = log2(1 + place of i by the outputs) and G_i = (2^t_i - 1) / best DCG of the group: the change of
    NDCG that a swap of i and j makes, so that pairs count most that involve the top. Burges, "From RankNet to
    LambdaRank to LambdaMART", 2010, as Wang et al., "The LambdaLoss Framework for Ranking Metric
    Optimization", CIKM 2018, write it (there with log2), and as TenSet and TLP train their models. 0 for a
    batch without rivals.
    """
    rivals = group[:, None] == group[None, :]  # [n, n]
    with torch.no_grad():
        discount = torch.log2(1 + _places(output, rivals))  # [n]
        gain = torch.exp2(target) - 1  # [n]
        ideal = gain / torch.log2(1 + _places(target, rivals))
        best_dcg = (rivals * ideal[None, :]).sum(dim=1).clamp(min=1e-12)  # [n], of the row's group
        gain = gain / best_dcg
        swap = (gain[:, None] - gain[None, :]).abs() * (1 / discount[:, None] - 1 / discount[None, :]).abs()
        above = rivals & (target[:, None] > target[None, :])
        # Each group with a pair has one best row at least; ties share the count.
        is_best = above.any(dim=1) & ~above.any(dim=0)
        ties = (rivals & is_best[None, :]).sum(dim=1).clamp(min=1)
        groups = (is_best / ties).sum().clamp(min=1)
    lost = F.softplus(-sigma * (output[:, None] - output[None, :]))  # [n, n]
    return (above * swap * lost).sum() / groups


def _places(value: Tensor, rivals: Tensor) -> Tensor:
    """Place of each row among its rivals by descending value, from 1; ties by row. [n] and [n, n] -> [n]."""
    row = torch.arange(len(value), device=value.device)
    ahead = (value[None, :] > value[:, None]) | ((value[None, :] == value[:, None]) & (row < row[:, None]))
    return 1 + (rivals & ahead).sum(dim=1)
