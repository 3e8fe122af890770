"""Gradient-boosted trees as a cost model: XGBoost fits them, tensors hold them, a checkpoint carries them.

MetaSchedule's XGBoost model adds up outputs for single stores (`gbdt`). These trees read a summary of the
whole program: a vector of its stores, and the task, draft and hardware vectors. Their errors differ from the
errors of networks, so an ensemble of both is better. Only fitting needs XGBoost (`foretune[xgboost]`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...dataset.features.table import FeatureTable
from ..losses.losses import squared_error
from ..scaling.normaliser import FeatureDims, Normaliser
from ..scaling.target import TargetConfig
from .cost_model import CostModel, FeatureTensors, masked_mean
from .gbdt import GbdtError, boosting_progress, require_xgboost
from .registry import register
from .sizes import Depth, Number, Share

_NEVER = float(np.finfo(np.float32).max)  # no feature reaches it; finite, so that it can be averaged
_FLOAT_OPS = 7  # first features of a store: numbers of its floating-point operations by kind
_CHUNK = 4096  # candidates that are summarised at once


@register("trees")
class TreesCostModel(CostModel):
    """Mean of regression trees over the summary of a program, on the scale of the training target.

    The trees of a relative target are fitted to scores. For `log_score` the logarithm of their output is
    taken: on held-out tasks that gives better R2 and top-k scores, and better ranks in an ensemble with
    networks. Efficiencies span four orders of magnitude, so that trees of an absolute target are fitted to
    their logarithms.

    The nodes of all trees are in one list, with the two children of a node next to each other. A step goes to
    `child[node]`, or to the node after it if the feature reaches the threshold; the child of a leaf is the
    leaf itself. Fitting fixes the structure. `leaves` are parameters like those of a network, so further
    training moves them. They hold the leaves' outputs times the number of trees, and the output is their
    mean, so that a step of an optimiser changes the output by at most the step.
    """

    def __init__(
        self,
        dims: FeatureDims,
        rounds: Number = 3000,
        patience: Number = 50,
        max_depth: Depth = 8,
        learning_rate: Share = 0.06,
        row_share: Share = 0.7,
        column_share: Share = 0.1,
    ) -> None:
        """The output is 0 for every candidate until `fit`.

        Args:
          dims: numbers of features.
          rounds: largest number of trees.
          patience: boosting stops after this many trees without a lower error on the validation rows.
          max_depth: largest number of splits from the root to a leaf.
          learning_rate: shrinkage of each tree's contribution.
          row_share: share of the records that each tree is fitted to (Friedman 2002, "Stochastic gradient
            boosting").
          column_share: share of the features that each split is chosen from, as in random forests.

        Raises:
          GbdtError: a setting is out of range.
        """
        super().__init__()
        if rounds < 1 or patience < 1 or max_depth < 1:
            raise GbdtError(
                f"rounds={rounds}, patience={patience}, max_depth={max_depth}: set each to 1 or more"
            )
        if not (0 < learning_rate <= 1 and 0 < row_share <= 1 and 0 < column_share <= 1):
            raise GbdtError(
                f"learning_rate={learning_rate}, row_share={row_share}, column_share={column_share}: set "
                "each within (0, 1]"
            )
        self._rounds, self._patience, self._max_depth = rounds, patience, max_depth
        self._shares = {"eta": learning_rate, "subsample": row_share, "colsample_bynode": column_share}
        self._inputs = 3 * dims.stores + 1 + dims.task + dims.hardware
        self.leaves: nn.Parameter
        self.effort: Tensor
        self.least: Tensor
        self.roots: Tensor
        self.child: Tensor
        self.features: Tensor
        self.thresholds: Tensor
        # Deviations of the counts of floating-point operations, to find the store with most arithmetic.
        self.register_buffer("effort", torch.ones(min(_FLOAT_OPS, dims.stores)))
        # Quantity at which the target is 0 if trees of quantities have a logarithmic one, else 0.
        self.register_buffer("least", torch.zeros(()))
        self._set_trees([_STUMP], 0.0)

    def fit(
        self,
        table: FeatureTable,
        rows: NDArray[np.int64],
        validation: NDArray[np.int64],
        normaliser: Normaliser,
        quantity: NDArray[np.float32],
        group: NDArray[np.int64],
        target: TargetConfig,
        offset: float = 1.0,
        seed: int = 0,
        threads: int = 1,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Fits trees by squared error and returns their number.

        Args:
          table: normalised features.
          rows: rows to fit, int64 [n].
          validation: rows whose error stops the boosting; if empty, all rounds are made.
          normaliser: normaliser of the features.
          quantity: scores or efficiencies (see `TargetConfig.encode`) of all rows of the table.
          group: task of all rows of the table.
          target: training target.
          offset: weight of the error that the rows of a task share (see `LossConfig`).
          seed: seed of the samples of rows and columns.
          threads: threads of XGBoost.
          progress: called with the number of trees so far.

        Raises:
          GbdtError: xgboost is not installed.
        """
        xgboost = require_xgboost()
        self._set_effort(normaliser)
        fits_target = target.is_absolute
        self.least = torch.tensor(0.0 if fits_target else target.least)
        labels = target.encode(quantity.astype(np.float64)) if fits_target else quantity
        base = float(labels[rows].mean())
        # A byte a value instead of eight; the trees split at the bounds of the same bins either way.
        binned = partial(xgboost.QuantileDMatrix, nthread=threads)
        fitted = binned(self._summaries(table, rows), label=labels[rows])
        watched = []
        if stops := len(validation) > 0:
            inputs = self._summaries(table, validation)
            watched = [(binned(inputs, label=labels[validation], ref=fitted), "validation")]
        own = _weighted_errors(labels, group, rows, validation, offset) if offset != 1 else {}
        booster = xgboost.train(
            self._settings(base, seed, threads),
            fitted,
            self._rounds,
            evals=watched,
            early_stopping_rounds=self._patience if stops else None,
            verbose_eval=False,
            callbacks=[boosting_progress(progress)] if progress else [],
            **own,
        )
        best = booster.best_iteration + 1 if stops else booster.num_boosted_rounds()
        self._set_trees(_saved_trees(booster[:best]), base)
        return best

    def _set_effort(self, normaliser: Normaliser) -> None:
        inverse = normaliser.stores.inverse_deviation[: len(self.effort)]
        deviation = np.divide(1, inverse, out=np.zeros_like(inverse), where=inverse > 0)
        self.effort = torch.from_numpy(deviation)

    def _settings(self, base: float, seed: int, threads: int) -> dict[str, Any]:
        """Settings of XGBoost; the trees are added to the output `base`."""
        return {
            "max_depth": self._max_depth,
            "tree_method": "hist",
            "base_score": base,
            "nthread": threads,
            "seed": seed,
            **self._shares,
        }

    def forward(self, features: FeatureTensors) -> Tensor:
        """Primary outputs [n]; see `CostModel.forward`."""
        inputs = self._summary(features)
        node = self.roots.expand(len(inputs), -1)  # [n, trees]
        for _ in range(self._depth):
            reached = inputs.gather(1, self.features[node].long()) >= self.thresholds[node]
            node = self.child[node] + reached
        # NaN fails every comparison and would go unnoticed, so it is added to the output.
        quantity = self.leaves[node].mean(dim=1) + 0 * inputs.sum(dim=1)
        if self.least == 0:
            return quantity
        return 1 - quantity.clamp(min=float(self.least)).log() / self.least.log()

    @property
    def is_rescalable(self) -> bool:
        """Whether the output is the mean of the leaves, and not its logarithm."""
        return bool(self.least == 0)

    def rescale(self, slope: float, offset: float) -> None:
        """See `CostModel.rescale`; raises ValueError if the output is a logarithm, which no leaves scale."""
        if not self.is_rescalable:
            raise ValueError("the output is the logarithm of the mean of the trees")
        with torch.no_grad():
            self.leaves.mul_(slope).add_(offset)

    def _summary(self, features: FeatureTensors) -> Tensor:
        """Inputs of the trees, float32 [n, inputs].

        They are the store with most arithmetic, the mean and the maximum of the stores (0 without stores),
        the number of stores, and the task and hardware fields.
        """
        stores, mask = features.stores, features.store_mask.unsqueeze(-1)
        work = (stores[..., :_FLOAT_OPS] * self.effort).sum(dim=-1)
        main = stores[
            torch.arange(len(stores)), work.masked_fill(~features.store_mask, -torch.inf).argmax(dim=1)
        ]
        count = features.store_mask.sum(dim=1, keepdim=True)
        greatest = stores.masked_fill(~mask, -torch.inf).amax(dim=1)
        some = count > 0
        return torch.cat(
            [
                main.where(some, 0),
                masked_mean(stores, features.store_mask),
                greatest.where(some, 0),
                count.to(stores.dtype),
                features.task,
                features.hardware,
            ],
            dim=1,
        )

    def _summaries(self, table: FeatureTable, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Inputs of the trees [len(rows), inputs] for some rows of a table."""
        made = np.empty((len(rows), self._inputs), np.float32)
        for start in range(0, len(rows), _CHUNK):
            some = slice(start, start + _CHUNK)
            made[some] = self._summary(FeatureTensors.of(table.batch(rows[some]))).numpy()
        return made

    def _set_trees(self, trees: Sequence[Mapping[str, Any]], base: float) -> None:
        """Replaces the trees by trees that XGBoost saved; `base` is added to their outputs."""
        nodes = [_nodes_by_level(tree) for tree in trees]
        starts = np.cumsum([0, *(len(of_tree) for of_tree in nodes)])
        children = np.concatenate([of_tree["child"] + at for of_tree, at in zip(nodes, starts, strict=False)])
        joined = np.concatenate(nodes)
        self.register_buffer("roots", torch.from_numpy(starts[:-1].astype(np.int32)))
        self.register_buffer("child", torch.from_numpy(children.astype(np.int32)))
        self.register_buffer("features", torch.from_numpy(joined["feature"].astype(np.int16)))
        self.register_buffer("thresholds", torch.from_numpy(joined["threshold"].astype(np.float32)))
        leaves = joined["leaf"] * len(trees) + base
        self.leaves = nn.Parameter(torch.from_numpy(leaves.astype(np.float32)))
        self._depth = self._checked_depth()

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *more: Any) -> None:
        """Resizes the buffers to the loaded trees and checks that they are trees."""
        nodes = state.get(prefix + "leaves", self.leaves).shape
        for name in ("child", "features", "thresholds"):
            self.register_buffer(name, getattr(self, name).new_zeros(nodes))
        self.leaves = nn.Parameter(self.leaves.new_zeros(nodes))
        self.register_buffer("roots", self.roots.new_zeros(state.get(prefix + "roots", self.roots).shape))
        super()._load_from_state_dict(state, prefix, *more)
        self._depth = self._checked_depth()

    def _checked_depth(self) -> int:
        """Longest path from a root to a leaf; raises RuntimeError unless the buffers describe trees."""
        children, roots = self.child.numpy(), self.roots.numpy()
        nodes, itself = len(children), np.arange(len(children))
        inner = children != itself
        well = (
            all(t.dtype == torch.int32 for t in (self.roots, self.child))
            and self.features.dtype == torch.int16
            and len(roots) > 0
            and ((roots >= 0) & (roots < nodes)).all()
            # Children come after their node and within the list, so every path ends.
            and (~inner | ((itself < children) & (children + 1 < nodes))).all()
            and (self.thresholds.numpy()[~inner] == np.float32(_NEVER)).all()
            and ((self.features >= 0) & (self.features < self._inputs)).all()
        )
        depth, here = 0, roots[inner[roots]] if well else roots[:0]
        while here.size and depth <= self._max_depth:
            # A mask and no list of nodes, which would double at each step if paths met.
            reached = np.zeros(nodes, np.bool_)
            reached[children[here]] = reached[children[here] + 1] = True
            depth, here = depth + 1, np.flatnonzero(reached & inner)
        if not well or depth > self._max_depth:
            raise RuntimeError(
                f"{len(roots)} roots and {nodes} nodes do not form trees of depth {self._max_depth}"
            )
        return depth


def _weighted_errors(
    labels: NDArray[np.float32],
    group: NDArray[np.int64],
    rows: NDArray[np.int64],
    validation: NDArray[np.int64],
    offset: float,
) -> dict[str, Any]:
    """Objective and metric of `xgboost.train` that weight the error which the rows of a task share."""
    return {
        "obj": _Errors(labels[rows], group[rows], offset).objective,
        "custom_metric": _Errors(labels[validation], group[validation], offset).metric,
    }


def _saved_trees(booster: Any) -> Any:
    """List of the trees of a booster of XGBoost, in its JSON format."""
    return json.loads(bytes(booster.save_raw("json")))["learner"]["gradient_booster"]["model"]["trees"]


class _Errors:
    """Square error of some rows (`losses.squared_error`) as XGBoost asks for it, all [n]."""

    def __init__(self, labels: NDArray[Any], group: NDArray[np.int64], offset: float) -> None:
        self._labels, self._group = torch.from_numpy(labels).double(), torch.from_numpy(group)
        self._offset = offset

    def objective(self, output: NDArray[np.float32], _: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Gradient of half the sum over rows, and the second derivative of the plain square error."""
        made = torch.from_numpy(output.astype(np.float64)).requires_grad_()
        (gradient,) = torch.autograd.grad(self._loss_of(made) * len(made) / 2, made)
        return gradient.numpy(), np.ones(len(output))

    def metric(self, output: NDArray[np.float32], _: Any) -> tuple[str, float]:
        """Name and value of the error that stops the boosting."""
        return "error", self._loss_of(torch.from_numpy(output.astype(np.float64))).item()

    def _loss_of(self, output: Tensor) -> Tensor:
        return squared_error(output, self._labels, self._group, self._offset)


_STUMP = {"left_children": [-1], "right_children": [-1], "split_indices": [0], "split_conditions": [0.0]}
"""Tree of a single leaf with output 0, in the format of XGBoost."""

_NODE = np.dtype([("child", "i8"), ("feature", "i8"), ("threshold", "f4"), ("leaf", "f4")])


def _nodes_by_level(tree: Mapping[str, Any]) -> NDArray[Any]:
    """Nodes of an XGBoost tree level by level, each right child directly after the left one."""
    left, right = tree["left_children"], tree["right_children"]
    order, place = [0], {0: 0}
    for node in order:  # which grows in the loop
        if left[node] != -1:
            for child in (left[node], right[node]):
                place[child] = len(order)
                order.append(child)
    found = np.zeros(len(order), _NODE)
    for at, node in enumerate(order):
        value = tree["split_conditions"][node]  # threshold, or output of a leaf
        if left[node] == -1:
            found[at] = (at, 0, _NEVER, value)
        else:
            found[at] = (place[left[node]], tree["split_indices"][node], value, 0.0)
    return found
