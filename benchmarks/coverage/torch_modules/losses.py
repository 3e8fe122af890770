"""Losses: the catalogue of torch.nn."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .making import Table, integers, new, normal, uniform

SCORES, CLASSES = normal(4, 5), integers(4, high=5)
OTHER, PARTS = normal(4, 5, seed=1), uniform(4, 5)
SIGNS = torch.tensor([1.0, -1.0, 1.0, -1.0])

TABLE: Table = {
    "L1Loss": (new(nn.L1Loss), SCORES, OTHER),
    "MSELoss": (new(nn.MSELoss), SCORES, OTHER),
    "MSELoss_sum": (new(nn.MSELoss, reduction="sum"), SCORES, OTHER),
    "SmoothL1Loss": (new(nn.SmoothL1Loss, beta=0.5), SCORES, OTHER),
    "HuberLoss": (new(nn.HuberLoss, delta=0.5), SCORES, OTHER),
    "CrossEntropyLoss": (new(nn.CrossEntropyLoss), SCORES, CLASSES),
    "CrossEntropyLoss_smoothed": (new(nn.CrossEntropyLoss, label_smoothing=0.1), SCORES, CLASSES),
    "CrossEntropyLoss_ignored": (
        new(nn.CrossEntropyLoss, ignore_index=-100),
        SCORES,
        torch.tensor([1, -100, 3, 0]),
    ),
    "CrossEntropyLoss_weights": (
        new(lambda: nn.CrossEntropyLoss(weight=torch.arange(1.0, 6.0), reduction="none")),
        SCORES,
        CLASSES,
    ),
    "CrossEntropyLoss_of_parts": (new(nn.CrossEntropyLoss), SCORES, PARTS / PARTS.sum(1, keepdim=True)),
    "CrossEntropyLoss_of_images": (new(nn.CrossEntropyLoss), normal(2, 5, 3, 4), integers(2, 3, 4, high=5)),
    "NLLLoss": (lambda x, t: F.nll_loss(x.log_softmax(-1), t), SCORES, CLASSES),
    "BCELoss": (new(nn.BCELoss), uniform(4, 5, low=0.05, high=0.95, seed=1), PARTS),
    "BCEWithLogitsLoss": (new(nn.BCEWithLogitsLoss), SCORES, PARTS),
    "BCEWithLogitsLoss_weights": (
        new(lambda: nn.BCEWithLogitsLoss(pos_weight=torch.arange(1.0, 6.0))),
        SCORES,
        PARTS,
    ),
    "KLDivLoss": (new(nn.KLDivLoss, reduction="batchmean"), SCORES.log_softmax(-1), OTHER.softmax(-1)),
    "KLDivLoss_of_logs": (
        new(nn.KLDivLoss, reduction="sum", log_target=True),
        SCORES.log_softmax(-1),
        OTHER.log_softmax(-1),
    ),
    "PoissonNLLLoss": (new(nn.PoissonNLLLoss), SCORES, PARTS * 4),
    "GaussianNLLLoss": (new(nn.GaussianNLLLoss), SCORES, OTHER, PARTS),
    "HingeEmbeddingLoss": (new(nn.HingeEmbeddingLoss), SCORES[:, 0], SIGNS),
    "MarginRankingLoss": (new(nn.MarginRankingLoss, 0.1), SCORES[:, 0], OTHER[:, 0], SIGNS),
    "SoftMarginLoss": (new(nn.SoftMarginLoss), SCORES[:, 0], SIGNS),
    "CosineEmbeddingLoss": (new(nn.CosineEmbeddingLoss), SCORES, OTHER, SIGNS),
    "TripletMarginLoss": (new(nn.TripletMarginLoss), SCORES, OTHER, PARTS),
    "MultiLabelMarginLoss": (new(nn.MultiLabelMarginLoss), SCORES, torch.tensor([[3, 0, -1, 1, 4]] * 4)),
    "MultiLabelSoftMarginLoss": (new(nn.MultiLabelSoftMarginLoss), SCORES, PARTS.round()),
    "MultiMarginLoss": (new(nn.MultiMarginLoss), SCORES, CLASSES),
    "CTCLoss": (
        lambda x, t: F.ctc_loss(x.log_softmax(-1), t, torch.tensor([7, 7]), torch.tensor([3, 3])),
        normal(7, 2, 5),
        integers(2, 3, low=1, high=5),
    ),
    "focal": (
        lambda x, t: ((1 - torch.exp(-F.cross_entropy(x, t, reduction="none"))) ** 2).mean(),
        SCORES,
        CLASSES,
    ),
    "contrastive": (
        lambda x, y: F.cross_entropy(F.normalize(x) @ F.normalize(y).T / 0.07, torch.arange(4)),
        SCORES,
        OTHER,
    ),
    "dice": (lambda x, t: 1 - 2 * (x.sigmoid() * t).sum() / (x.sigmoid().sum() + t.sum()), SCORES, PARTS),
}
