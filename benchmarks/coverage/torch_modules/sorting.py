"""Sorting and ranking."""

from __future__ import annotations

import torch

from .making import MATRIX, Table, booleans, integers, normal

TIES = integers(4, 7, high=3)

TABLE: Table = {
    "sort": (lambda x: x.sort(), MATRIX),
    "sort_descending": (lambda x: x.sort(0, descending=True), MATRIX),
    "sort_stable": (lambda x: torch.sort(x, stable=True), TIES),
    "sort_stable_descending": (lambda x: torch.sort(x, stable=True, descending=True), TIES),
    "sort_values_of_ties": (lambda x: x.sort(-1)[0], TIES),
    "argsort": (lambda x: x.argsort(-1), MATRIX),
    "argsort_twice": (lambda x: x.argsort(-1).argsort(-1), MATRIX),
    "argsort_descending": (lambda x: torch.argsort(x, dim=0, descending=True), MATRIX),
    "msort": (lambda x: torch.msort(x), MATRIX),
    "topk": (lambda x: x.topk(3), MATRIX),
    "topk_smallest": (lambda x: x.topk(2, 0, largest=False), MATRIX),
    "topk_unsorted": (lambda x: x.topk(2, sorted=False)[0].sum(-1), MATRIX),
    "kthvalue": (lambda x: x.kthvalue(2), MATRIX),
    "kthvalue_kept": (lambda x: x.kthvalue(3, 0, keepdim=True), MATRIX),
    "topk_mask": (lambda x: x >= x.topk(2, -1)[0][..., -1:], MATRIX),
    "top_p": (
        lambda x: (lambda s, i: torch.zeros_like(x).scatter(1, i, (s.softmax(-1).cumsum(-1) < 0.9).float()))(
            *x.sort(-1, descending=True)
        ),
        normal(2, 9),
    ),
    "sorted_by_key": (lambda x, k: x[k.argsort()], MATRIX, normal(4)),
    "sort_of_booleans": (lambda x: x.sort(-1)[0], booleans(3, 5)),
    "isin": (lambda x: torch.isin(x, torch.tensor([1, 2])), TIES),
    "unique_consecutive": (lambda x: torch.unique_consecutive(x), TIES.flatten().sort()[0]),
    "cartesian": (lambda a, b: torch.cartesian_prod(a, b), normal(3), normal(2)),
    "combinations": (lambda a: torch.combinations(a, 2), normal(4)),
}
