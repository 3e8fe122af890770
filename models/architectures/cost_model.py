"""Interface of cost models: a network over tensors, and a predictor over arrays of raw features."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...dataset.features import FEATURE_VERSION
from ...dataset.features.roofline import latency_bound_s
from ...dataset.features.table import FeatureBatch, FeatureTable
from ...errors import UserError
from ..scaling.columns import LOG_VARIANCE, LOG_VARIANCE_RANGE, SCORE, SHARES, column_names, decode_share
from ..scaling.normaliser import Normaliser
from ..scaling.target import TargetConfig


class NanError(UserError, ValueError):
    """The features of a candidate or the outputs of the model are NaN."""


class FeatureTensors(NamedTuple):
    """Tensors of a normalised `FeatureBatch`; a mask is True for a token and False for padding."""

    stores: Tensor  # float32 [n, max_stores, dims.stores]
    store_mask: Tensor  # bool [n, max_stores]
    decisions: Tensor  # float32 [n, max_decisions, dims.decisions]
    decision_mask: Tensor  # bool [n, max_decisions]
    task: Tensor  # float32 [n, dims.task]
    hardware: Tensor  # float32 [n, dims.hardware]

    @classmethod
    def of(cls, batch: FeatureBatch) -> FeatureTensors:
        """Tensors that share the memory of a batch's arrays."""
        return cls(*(torch.from_numpy(getattr(batch, name)) for name in cls._fields))


class FeatureNetwork(nn.Module, ABC):
    """Network over features of candidates; the constructor of a subclass takes `dims: FeatureDims` first."""

    feature_version: ClassVar[str] = FEATURE_VERSION
    """Version of the features that the network reads; the features of programs by default."""
    columns: tuple[str, ...]
    """Names of the columns of `all_columns`."""

    @abstractmethod
    def all_columns(self, features: FeatureTensors) -> Tensor:
        """All outputs, float32 [n, len(columns)]; a row depends on its own candidate alone."""


class CostModel(FeatureNetwork):
    """Network that scores candidates."""

    columns: tuple[str, ...] = (SCORE,)
    """Names of the columns of `all_columns`, the primary output first; see `columns`."""

    @abstractmethod
    def forward(self, features: FeatureTensors) -> Tensor:
        """Primary outputs float32 [n] on the scale of the training target, higher for faster programs.

        An output depends only on its own row, and not on the contents of the padding.
        """

    def all_columns(self, features: FeatureTensors) -> Tensor:
        """All outputs, float32 [n, len(columns)]; the first column is the value of `forward`."""
        return self(features).unsqueeze(-1)

    @property
    def is_rescalable(self) -> bool:
        """Whether the parameters can take a scale; see `rescale`."""
        return True

    @abstractmethod
    def rescale(self, slope: float, offset: float) -> None:
        """Changes the parameters so that a primary output of y becomes offset + slope * y; slope > 0."""


class MultiOutputModel(CostModel):
    """Network with a column for each of `outputs`, and with `variance` one for the first's log variance."""

    head: nn.Sequential
    """Last layers; the final layer is linear with a column for each output."""

    def __init__(self, outputs: Sequence[str], variance: bool) -> None:
        super().__init__()
        self.columns = column_names(outputs, variance)

    @abstractmethod
    def raw_columns(self, features: FeatureTensors) -> Tensor:
        """Outputs of the head, float32 [n, len(columns)], before the variance is bounded."""

    def all_columns(self, features: FeatureTensors) -> Tensor:
        """All outputs [n, columns], with a bounded variance; see `CostModel.all_columns`."""
        columns = self.raw_columns(features)
        if self.columns[-1] != LOG_VARIANCE:
            return columns
        return torch.cat([columns[:, :-1], columns[:, -1:].clamp(*LOG_VARIANCE_RANGE)], dim=-1)

    def forward(self, features: FeatureTensors) -> Tensor:
        """Primary outputs [n]; see `CostModel.forward`."""
        return self.all_columns(features)[:, 0]

    def rescale(self, slope: float, offset: float) -> None:
        """Scales the primary output and its standard deviation; see `CostModel.rescale`."""
        last = self.head[-1]
        assert isinstance(last, nn.Linear)
        rescale_first(last, slope, offset)
        if self.columns[-1] == LOG_VARIANCE:
            with torch.no_grad():
                last.bias[-1] += 2 * math.log(slope)


def rescale_first(layer: nn.Linear, slope: float, offset: float) -> None:
    """Makes the first output y of a linear layer offset + slope * y."""
    with torch.no_grad():
        layer.weight[0] *= slope
        layer.bias[0] = offset + slope * layer.bias[0]


@dataclass(frozen=True)
class Prediction:
    """All outputs of a model for n candidates, each float32 [n]; None for outputs that it does not have.

    `output` is on the scale of the training target, where errors are roughly normal, and `std` is its
    standard deviation: add a multiple of `std` to `output` to trade speed against certainty. `memory` and
    `core` are the roofline scores in [0, 1] of `dataset.features.roofline`.
    """

    score: NDArray[np.float32]
    output: NDArray[np.float32]
    std: NDArray[np.float32] | None
    memory: NDArray[np.float32] | None
    core: NDArray[np.float32] | None


@dataclass(frozen=True)
class Predictor:
    """Trained model that scores candidates from raw features."""

    normaliser: Normaliser
    model: CostModel
    target: TargetConfig
    chunk: int = 512  # rows at a time, which bounds memory; the search batch of One-Shot Tuner Table 2
    std_scale: float = 1.0  # factor on the model's standard deviations; see `calibration.fit_correction`
    std_floor: float = 0.0  # least standard deviation on the scale of the target; from the same fit

    def predict(self, batch: FeatureBatch) -> NDArray[np.float32]:
        """Predicted scores float32 [n], higher for faster programs.

        A score is near 1 for the best program of its task; with an absolute target it is the predicted
        efficiency. Global and thread settings of torch are unchanged.

        Raises:
          ValueError: the batch has other dimensions than the model, or contains NaN.
        """
        return self.target.decode(self._columns(batch)[:, 0])

    def predict_all(self, batch: FeatureBatch) -> Prediction:
        """All outputs of the model; raises as `predict` does."""
        return self.named(self._columns(batch))

    def predict_latency_s(self, batch: FeatureBatch) -> NDArray[np.float64]:
        """Predicted latencies in seconds, float64 [n]; raises as `predict` does.

        The raw features of the batch give the operations and bytes of the task and the device's ceilings.

        Raises:
          TargetError: the model was trained on scores, which are relative to the best program of a task.
        """
        return self.target.latency_s(self._columns(batch)[:, 0], latency_bound_s(batch))

    def predict_table(self, table: FeatureTable, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Predicted scores [len(rows)] of some rows of a table, padded a chunk at a time."""
        return self.target.decode(self.table_columns(table, rows)[:, 0])

    def predict_all_table(self, table: FeatureTable, rows: NDArray[np.int64]) -> Prediction:
        """All outputs of the model for some rows of a table."""
        return self.named(self.table_columns(table, rows))

    def table_columns(self, table: FeatureTable, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Columns of the model's output [len(rows), len(columns)] for some rows of a table."""
        chunks = (table.batch(rows[i : i + self.chunk]) for i in range(0, len(rows), self.chunk))
        none = np.empty((0, len(self.model.columns)), np.float32)
        return np.concatenate([none, *(self._columns(chunk) for chunk in chunks)])

    def _columns(self, batch: FeatureBatch) -> NDArray[np.float32]:
        """Columns of the model's output, float32 [n, len(columns)]."""
        columns = np.empty((len(batch), len(self.model.columns)), dtype=np.float32)
        if self.model.training:  # eval() walks all modules, which takes as long as scoring a few candidates
            self.model.eval()
        device = next(self.model.parameters()).device
        with torch.inference_mode():
            for start in range(0, len(batch), self.chunk):
                rows = slice(start, start + self.chunk)
                part = FeatureBatch(*(getattr(batch, f.name)[rows] for f in fields(batch)))
                features = FeatureTensors.of(self.normaliser.batch(part))
                made = self.model.all_columns(FeatureTensors(*(tensor.to(device) for tensor in features)))
                columns[rows] = made.float().cpu().numpy()
        if np.isnan(columns).any():
            bad = int(np.flatnonzero(np.isnan(columns).any(axis=1))[0])
            if not all(np.isfinite(getattr(batch, f.name)[bad]).all() for f in fields(batch)):
                raise NanError(
                    f"the features of candidate {bad} contain NaN or infinity: regenerate the features"
                )
            raise NanError(
                f"the model gives NaN for the finite features of candidate {bad}, as it diverged: train it "
                "again with a lower optimiser.learning_rate"
            )
        return columns

    def named(self, columns: NDArray[np.float32]) -> Prediction:
        """All outputs from the columns of the model's output [n, len(columns)]."""
        of = dict(zip(self.model.columns, columns.T, strict=True))
        shares = {name: decode_share(of[name]) if name in of else None for name in SHARES}
        std = None
        if LOG_VARIANCE in of:
            std = np.hypot(
                np.exp(of[LOG_VARIANCE] / 2) * np.float32(self.std_scale), np.float32(self.std_floor)
            )
        return Prediction(self.target.decode(of[SCORE]), of[SCORE], std, **shares)


def masked_mean(tokens: Tensor, mask: Tensor) -> Tensor:
    """Mean over the masked tokens: [n, tokens, width] and bool [n, tokens] -> [n, width], 0 for no token."""
    weight = mask.unsqueeze(-1).to(tokens.dtype)
    return (tokens * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1)
