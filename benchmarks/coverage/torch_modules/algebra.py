"""Linear algebra."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .making import MATRIX, Table, new, normal

SQUARE = normal(4, 4)
BATCH, OTHER = normal(3, 4, 5), normal(3, 5, 2)
DEFINITE = SQUARE @ SQUARE.T + 4 * torch.eye(4)

TABLE: Table = {
    "Linear": (new(nn.Linear, 5, 3), MATRIX),
    "Linear_without_bias": (new(nn.Linear, 5, 3, bias=False), BATCH),
    "Linear_of_vector": (new(nn.Linear, 5, 3), normal(5)),
    "Bilinear": (new(nn.Bilinear, 5, 3, 2), MATRIX, normal(4, 3)),
    "Bilinear_of_sequences": (new(nn.Bilinear, 5, 3, 2, bias=False), BATCH, normal(3, 4, 3)),
    "mm": (lambda x, y: torch.mm(x, y), MATRIX, normal(5, 3)),
    "bmm": (lambda x, y: torch.bmm(x, y), BATCH, OTHER),
    "matmul_broadcast": (lambda x, y: x @ y, normal(2, 1, 4, 5), OTHER),
    "matmul_of_vectors": (lambda x, y: x @ y, normal(5), normal(5, seed=1)),
    "matrix_and_vector": (lambda x, y: x @ y, BATCH, normal(5)),
    "vector_and_matrix": (lambda x, y: x @ y, normal(4), MATRIX),
    "mv": (lambda x, y: torch.mv(x, y), MATRIX, normal(5)),
    "dot": (lambda x, y: torch.dot(x, y), normal(5), normal(5, seed=1)),
    "outer": (lambda x, y: torch.outer(x, y), normal(5), normal(3)),
    "addmm": (lambda b, x, y: torch.addmm(b, x, y, beta=0.5, alpha=2), normal(3), MATRIX, normal(5, 3)),
    "addmm_beta_0": (lambda b, x, y: torch.addmm(b, x, y, beta=0), normal(3), MATRIX, normal(5, 3)),
    "baddbmm": (lambda b, x, y: torch.baddbmm(b, x, y, alpha=0.5), normal(3, 4, 2), BATCH, OTHER),
    "addbmm": (lambda b, x, y: torch.addbmm(b, x, y), normal(4, 2), BATCH, OTHER),
    "addmv": (lambda b, x, y: torch.addmv(b, x, y), normal(4), MATRIX, normal(5)),
    "addr": (lambda b, x, y: torch.addr(b, x, y), MATRIX, normal(4), normal(5)),
    "einsum": (lambda x, y: torch.einsum("bij,bjk->bik", x, y), BATCH, OTHER),
    "einsum_trace": (lambda x: torch.einsum("ii->", x), SQUARE),
    "einsum_diagonal": (lambda x: torch.einsum("bii->bi", x), normal(2, 4, 4)),
    "einsum_of_three": (
        lambda x, y, z: torch.einsum("bi,ij,bj->b", x, y, z),
        normal(3, 4),
        MATRIX,
        normal(3, 5),
    ),
    "einsum_outer": (lambda x, y: torch.einsum("i,j->ij", x, y), normal(3), normal(4)),
    "einsum_ellipsis": (lambda x, y: torch.einsum("...ij,kj->...ik", x, y), BATCH, normal(2, 5)),
    "tensordot": (lambda x, y: torch.tensordot(x, y, dims=([1, 2], [0, 1])), BATCH, normal(4, 5, 2)),
    "kron": (lambda x, y: torch.kron(x, y), MATRIX, normal(2, 3)),
    "cross": (lambda x, y: torch.linalg.cross(x, y), normal(4, 3), normal(4, 3, seed=1)),
    "chain_matmul": (lambda x, y: torch.linalg.multi_dot([x, y, y.T]), MATRIX, normal(5, 3)),
    "matrix_power": (lambda x: torch.linalg.matrix_power(x, 3), SQUARE),
    "matrix_exp": (lambda x: torch.matrix_exp(x), SQUARE),
    "inverse": (lambda x: torch.linalg.inv(x), DEFINITE),
    "determinant": (lambda x: torch.linalg.det(x), DEFINITE),
    "slogdet": (lambda x: torch.linalg.slogdet(x), DEFINITE),
    "solve": (lambda x, y: torch.linalg.solve(x, y), DEFINITE, normal(4, 2)),
    "solve_triangular": (
        lambda x, y: torch.linalg.solve_triangular(x.tril(), y, upper=False),
        DEFINITE,
        normal(4, 2),
    ),
    "cholesky": (lambda x: torch.linalg.cholesky(x), DEFINITE),
    "qr": (lambda x: torch.linalg.qr(x), MATRIX),
    "svd_values": (lambda x: torch.linalg.svdvals(x), MATRIX),
    "eigh": (lambda x: torch.linalg.eigvalsh(x), DEFINITE),
    "cdist": (lambda x, y: torch.cdist(x, y), MATRIX, normal(3, 5)),
    "cdist_1": (lambda x, y: torch.cdist(x, y, p=1), MATRIX, normal(3, 5)),
    "pairwise_distance": (lambda x, y: F.pairwise_distance(x, y), MATRIX, normal(4, 5, seed=1)),
    "pdist": (lambda x: F.pdist(x), MATRIX),
    "cosine_similarity": (lambda x, y: F.cosine_similarity(x, y, dim=-1), MATRIX, normal(4, 5, seed=1)),
    "CosineSimilarity_of_pairs": (
        lambda x, y: F.cosine_similarity(x[:, None], y[None], dim=-1),
        MATRIX,
        normal(3, 5),
    ),
    "gram": (lambda x: x.flatten(1) @ x.flatten(1).T / x.numel(), normal(4, 3, 5)),
    "lora": (
        lambda x, w, a, b: F.linear(x, w) + 0.5 * (x @ a @ b),
        MATRIX,
        normal(6, 5),
        normal(5, 2),
        normal(2, 6),
    ),
    "vander": (lambda x: torch.linalg.vander(x, N=4), normal(5)),
}
