"""From labelled features to batches: split, normalise, leave out, oversample, batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytorch_lightning as pl
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, RandomSampler, Sampler, WeightedRandomSampler

from ..dataset.features.table import FeatureTable, LabelledFeatures
from ..dataset.split import Split, SplitConfig, split_rows
from ..errors import UserError
from ..models.checkpoint import Checkpoint
from ..models.cost_model import FeatureTensors
from ..models.normaliser import KINDS, Normaliser
from ..models.target import TargetConfig
from .labels import Labels, inverse_frequency


class DataError(UserError, ValueError):
    """The dataset or the batch settings leave nothing to train on."""


@dataclass(frozen=True)
class DataConfig:
    """How training rows are chosen and batched.

    `rivals` rows of one task stand together in a batch, so that a ranking loss finds pairs; 1 mixes freely.
    `without` names kinds of features (stores, decisions, task, hardware) that the model is not given, neither
    in training nor when its checkpoint serves: the ablation of One-Shot Tuner section 6.3.
    """

    batch_size: int = 512
    oversample: bool = True
    rivals: int = 16
    keep_slow: bool = False
    keep_failed: bool = False
    without: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if set(self.without) - set(KINDS) or set(self.without) >= {"stores", "decisions"}:
            raise DataError(
                f"data.without={list(self.without)}: choose among {', '.join(KINDS)}, and leave stores or "
                "decisions in, which alone tell the programs of a task apart"
            )
        if self.batch_size < 1 or not 1 <= self.rivals <= self.batch_size:
            raise DataError(
                f"data.batch_size={self.batch_size} and data.rivals={self.rivals}: set "
                "1 <= rivals <= batch_size"
            )


class TrainingBatch(NamedTuple):
    """Features and labels of n records."""

    features: FeatureTensors
    target: Tensor  # float32 [n]
    group: Tensor  # int64 [n]
    latency_s: Tensor  # float32 [n], +inf for a failure


class RecordDataset(Dataset[TrainingBatch]):
    """Some rows of a table; the loader asks for a whole batch at once, padded to its longest program."""

    def __init__(
        self, features: FeatureTable, labels: Labels, target: TargetConfig, rows: NDArray[np.int64]
    ) -> None:
        self.rows = rows
        self.labels = labels
        self._features = features
        self._target = target.encode(np.nan_to_num(labels.score))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitems__(self, indices: list[int]) -> TrainingBatch:
        rows = self.rows[np.array(indices, dtype=np.int64)]
        return TrainingBatch(
            FeatureTensors.of(self._features.batch(rows)),
            torch.from_numpy(self._target[rows]),
            torch.from_numpy(self.labels.group[rows]),
            torch.from_numpy(self.labels.latency_s[rows].astype(np.float32)),
        )


class RivalBatchSampler(Sampler[list[int]]):
    """Batches an epoch's draw so that `rivals` rows of one group stand together.

    The draw is ordered by group at random, cut into chunks of `rivals`, and the shuffled chunks fill batches.
    """

    def __init__(
        self,
        draw: Sampler[int],
        group: NDArray[np.int64],
        batch_size: int,
        rivals: int,
        generator: torch.Generator,
    ) -> None:
        self._draw = draw
        self._group = torch.from_numpy(group)
        self._batch_size = batch_size
        self._rivals = rivals
        self._generator = generator

    def __len__(self) -> int:
        return -(-len(self._draw) // self._batch_size)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[list[int]]:
        drawn = torch.tensor(list(self._draw))
        if self._rivals > 1:
            drawn = drawn[self._group[drawn].argsort(stable=True)]
            chunks = drawn.split(self._rivals)
            order = torch.randperm(len(chunks), generator=self._generator).tolist()
            drawn = torch.cat([chunks[i] for i in order])
        for batch in drawn.split(self._batch_size):
            yield batch.tolist()


class CostModelData(pl.LightningDataModule):
    """Splits by task, fits the normaliser on the training part, and serves batches of both parts.

    Training leaves out slow and failed programs as `config` says; validation and test keep every record of
    their tasks, since a search meets slow and failing programs, too.

    Raises:
      DataError: no training record is left.
      SplitError, LabelError: see `split_rows` and `Labels.of`.
    """

    def __init__(
        self,
        data: LabelledFeatures,
        split: SplitConfig,
        target: TargetConfig,
        config: DataConfig,
        seed: int = 0,
        before: Checkpoint | None = None,
    ) -> None:
        """Takes normaliser and seen tasks from `before`, the checkpoint of a model to be trained further."""
        super().__init__()
        self.data = data
        self.labels = Labels.of(data)
        self.split: Split = split_rows(data, split, before.card.split.seen_tasks if before else ())
        train = self.labels.usable(
            self.split.train, target.max_slowdown, config.keep_slow, config.keep_failed
        )
        if len(train) == 0:
            raise DataError(
                f"none of the {len(self.split.train)} records of the training tasks ran: set "
                "data.keep_failed=true to train on failures, or generate more records"
            )
        self.normaliser = (
            before.predictor.normaliser if before else Normaliser.fit(data.features, train, config.without)
        )
        self._features = self.normaliser.table(data.features)
        self._target = target
        self._config = config
        self._generator = torch.Generator().manual_seed(seed)
        self.train = self.records(train)
        known = self.split.validation[~np.isnan(self.labels.score[self.split.validation])]
        self.validation = self.records(known)

    def records(self, rows: NDArray[np.int64]) -> RecordDataset:
        """The dataset of some rows."""
        return RecordDataset(self._features, self.labels, self._target, rows)

    def train_dataloader(self) -> DataLoader[TrainingBatch]:
        """Batches of the training part, oversampled if so set (One-Shot Tuner sections 4.1.2 and 5)."""
        draw: Sampler[int]
        if self._config.oversample:
            weights = inverse_frequency(self.labels.score[self.train.rows])
            draw = WeightedRandomSampler(weights.tolist(), len(self.train), generator=self._generator)
        else:
            draw = RandomSampler(self.train, generator=self._generator)
        batches = RivalBatchSampler(
            draw,
            self.labels.group[self.train.rows],
            self._config.batch_size,
            self._config.rivals,
            self._generator,
        )
        return DataLoader(self.train, batch_sampler=batches, collate_fn=_as_is)

    def val_dataloader(self) -> DataLoader[TrainingBatch]:
        """Batches of the validation part in row order."""
        return DataLoader(self.validation, batch_size=512, collate_fn=_as_is)


def _as_is(batch: Any) -> Any:
    return batch
