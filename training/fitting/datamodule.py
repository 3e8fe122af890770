"""Batches of labelled features: split, normalise, filter, oversample and batch the records."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytorch_lightning as pl
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, RandomSampler, Sampler, WeightedRandomSampler

from ...dataset.features.roofline import dataset_scores, latency_bound_s
from ...dataset.features.table import FeatureTable, LabelledFeatures
from ...dataset.records.split import Split, SplitConfig, split_rows
from ...errors import UserError
from ...models.architectures.cost_model import FeatureTensors
from ...models.checkpoints.checkpoint import Checkpoint
from ...models.scaling.columns import SCORE, SHARES, encode_share
from ...models.scaling.normaliser import KINDS, Normaliser
from ...models.scaling.target import TargetConfig
from ...wording import counted, verb
from .labels import Labels, inverse_frequency


@dataclass(frozen=True)
class Targets:
    """Targets with one row per record, 0 for a failure."""

    primary: NDArray[np.float32]  # [n], see TargetConfig
    shares: NDArray[np.float32]  # [n, k], see columns.encode_share; k may be 0

    @classmethod
    def of(
        cls, data: LabelledFeatures, labels: Labels, target: TargetConfig, columns: Sequence[str]
    ) -> Targets:
        """Targets of the records of `labels` for a model of these columns."""
        if target.quantity == "efficiency":
            quantity = latency_bound_s(data.features) / labels.latency_s  # 0 for a failure
        else:
            quantity = np.nan_to_num(labels.score)
        shares = np.zeros((len(data), 0), dtype=np.float32)
        names = [name for name in columns if name in SHARES]
        if names:
            scores = dataset_scores(data)
            shares = np.stack([encode_share(getattr(scores, name)) for name in names], axis=1)
        return cls(target.encode(quantity), shares)


log = logging.getLogger(__name__)

_WINDOW = 8  # batches that are sorted by length together: of similar lengths, and still of many tasks


class DataError(UserError, ValueError):
    """The dataset or the batch settings leave nothing to train on."""


@dataclass(frozen=True)
class DataConfig:
    """Choice and batching of training rows.

    `rivals` rows of one task are placed together in a batch, so that a ranking loss finds pairs; 1 mixes
    freely. `without` names kinds of features (`normaliser.KINDS`) that the model is not given, neither in
    training nor when its checkpoint serves: the ablation of One-Shot Tuner section 6.3.
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
                "decisions in, which tell the programs of a task apart"
            )
        if self.batch_size < 1 or not 1 <= self.rivals <= self.batch_size:
            raise DataError(
                f"data.batch_size={self.batch_size} and data.rivals={self.rivals}: set "
                "1 <= rivals <= batch_size"
            )


class TrainingBatch(NamedTuple):
    """Features and targets of n records."""

    features: FeatureTensors
    target: Tensor  # float32 [n]
    shares: Tensor  # float32 [n, k], targets of the model's columns among SHARES
    group: Tensor  # int64 [n]
    latency_s: Tensor  # float32 [n], +inf for a failure


class RecordDataset(Dataset[TrainingBatch]):
    """Some rows of a table; a batch is read at once and padded to its longest program."""

    def __init__(
        self, features: FeatureTable, labels: Labels, targets: Targets, rows: NDArray[np.int64]
    ) -> None:
        self.rows = rows
        self.labels = labels
        self._features = features
        self._targets = targets

    def __len__(self) -> int:
        return len(self.rows)

    def __getitems__(self, indices: list[int]) -> TrainingBatch:
        rows = self.rows[np.array(indices, dtype=np.int64)]
        return TrainingBatch(
            FeatureTensors.of(self._features.batch(rows)),
            torch.from_numpy(self._targets.primary[rows]),
            torch.from_numpy(self._targets.shares[rows]),
            torch.from_numpy(self.labels.group[rows]),
            torch.from_numpy(self.labels.latency_s[rows].astype(np.float32)),
        )


class RivalBatchSampler(Sampler[list[int]]):
    """Sampler of batches with `rivals` rows of one group next to each other.

    An epoch's rows are sorted by group, cut into chunks of `rivals` rows, and the shuffled chunks fill the
    batches. The chunks of every `_WINDOW` batches are sorted by length, so that batches need little padding,
    and the batches are shuffled. In a training on several devices, every process draws the same batches and
    takes its share. All processes take the same number, and the first batches are repeated if the batches do
    not divide evenly.
    """

    def __init__(
        self,
        draw: Sampler[int],
        group: NDArray[np.int64],
        length: NDArray[np.int64],
        batch_size: int,
        rivals: int,
        generator: torch.Generator,
    ) -> None:
        self._draw = draw
        self._group = torch.from_numpy(group)
        self._length = torch.from_numpy(length)
        self._batch_size = batch_size
        self._rivals = rivals
        self._generator = generator

    def __len__(self) -> int:
        batches = -(-len(self._draw) // self._batch_size)  # type: ignore[arg-type]
        return -(-batches // _processes()[1])

    def __iter__(self) -> Iterator[list[int]]:
        batches = self._batches()
        process, processes = _processes()
        for number in range(process, len(self) * processes, processes):
            yield batches[number % len(batches)].tolist()

    def _batches(self) -> list[Tensor]:
        """Batches of an epoch for all processes."""
        drawn = torch.tensor(list(self._draw))
        if self._rivals == 1:
            return list(drawn.split(self._batch_size))
        drawn = drawn[self._group[drawn].argsort(stable=True)]
        chunks = drawn.split(self._rivals)
        longest = torch.stack([self._length[chunk].max() for chunk in chunks])
        windows = self._shuffled(len(chunks)).split(_WINDOW * self._batch_size // self._rivals)
        order = torch.cat([window[longest[window].argsort(stable=True)] for window in windows]).tolist()
        batches = torch.cat([chunks[i] for i in order]).split(self._batch_size)
        return [batches[i] for i in self._shuffled(len(batches)).tolist()]

    def _shuffled(self, count: int) -> Tensor:
        return torch.randperm(count, generator=self._generator)


class CostModelData(pl.LightningDataModule):
    """Training and validation batches of a dataset that is split by task and normalised.

    Training leaves out slow and failed programs by `config`. Validation and test keep all records of their
    tasks, since a search meets slow and failing programs, too.

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
        """Takes normaliser and seen tasks from `before`, the checkpoint of a model that is trained further.

        Targets are those of the primary output; `set_columns` adds those of other outputs.
        """
        super().__init__()
        self.data = data
        self.labels = Labels.of(data)
        self.targets = Targets.of(data, self.labels, target, (SCORE,))
        self.split: Split = split_rows(data, split, before.card.split.seen_in(data) if before else ())
        train = self.labels.usable(
            self.split.train, target.max_slowdown, config.keep_slow, config.keep_failed
        )
        if len(train) == 0:
            raise DataError(
                "no record of the training tasks ran: set "
                "data.keep_failed=true to train on failures, or generate more records"
            )
        if before and config.without and set(config.without) != set(before.predictor.normaliser.without):
            raise DataError(
                f"data.without={list(config.without)}, but the checkpoint to start from was trained without "
                f"{list(before.predictor.normaliser.without)} and keeps its features: leave the setting out"
            )
        if np.ptp(self.targets.primary[train]) == 0:
            raise DataError(
                f"{counted(len(train), 'record')} to train on {verb(len(train), 'has', 'have')} one "
                "and the same target, which leaves nothing "
                "to learn: generate several programs per task with foretune generate"
            )
        self.normaliser = (
            before.predictor.normaliser if before else _fitted(data.features, train, config.without)
        )
        _warn_of_poor_data(data, self.labels, train, self.normaliser.without)
        self.features = self.normaliser.table(data.features)
        self._config, self._target = config, target
        self.reseed(seed)
        known = self.split.validation[~np.isnan(self.labels.score[self.split.validation])]
        self.train, self.validation = self.records(train), self.records(known)
        self.validates = self.labels.ranks(known)
        if len(known) and not self.validates:
            log.warning(
                "no validation task has two programs of different latency, so no epoch can be preferred: all "
                "epochs are trained and the last is kept; raise split.validation"
            )

    def records(self, rows: NDArray[np.int64]) -> RecordDataset:
        """Dataset of some rows."""
        return RecordDataset(self.features, self.labels, self.targets, rows)

    def set_columns(self, columns: Sequence[str]) -> None:
        """Sets the targets of all following batches to those of a model's columns."""
        self.targets = Targets.of(self.data, self.labels, self._target, columns)
        self.train = self.records(self.train.rows)
        self.validation = self.records(self.validation.rows)

    def reseed(self, seed: int) -> None:
        """Seeds the order of the following batches."""
        self._seed, self._generator = seed, torch.Generator().manual_seed(seed)

    def seed_epoch(self, epoch: int) -> None:
        """Seeds batches and dropout by seed and epoch, so that a resumed training repeats no epoch's."""
        of_torch, of_batches = np.random.SeedSequence((self._seed, epoch)).generate_state(2).tolist()
        torch.manual_seed(of_torch)
        self._generator.manual_seed(of_batches)

    def train_dataloader(self) -> DataLoader[TrainingBatch]:
        """Batches of the training part, with `oversample` by score (One-Shot Tuner sections 4.1.2 and 5)."""
        draw: Sampler[int]
        if self._config.oversample:
            weights = inverse_frequency(self.labels.score[self.train.rows])
            draw = WeightedRandomSampler(weights.tolist(), len(self.train), generator=self._generator)
        else:
            draw = RandomSampler(self.train, generator=self._generator)
        batches = RivalBatchSampler(
            draw,
            self.labels.group[self.train.rows],
            self.features.lengths[self.train.rows],
            self._config.batch_size,
            self._config.rivals,
            self._generator,
        )
        # The loader draws a number for its workers, which must not come from the generators that are seeded.
        own = torch.Generator()
        return DataLoader(self.train, batch_sampler=batches, collate_fn=_as_is, generator=own)

    def val_dataloader(self) -> DataLoader[TrainingBatch]:
        """Batches of the validation part in row order."""
        return DataLoader(self.validation, batch_size=512, collate_fn=_as_is)


def _fitted(features: FeatureTable, rows: NDArray[np.int64], without: Collection[str]) -> Normaliser:
    try:
        return Normaliser.fit(features, rows, without)
    except ValueError as error:
        raise DataError(f"{error}, and leave out the records that have them") from error


def _warn_of_poor_data(
    data: LabelledFeatures, labels: Labels, train: NDArray[np.int64], without: Collection[str]
) -> None:
    """Logs warnings about records that limit what any model can learn."""
    devices, tasks = np.unique(data.hardware_id[train]), np.unique(data.workload_hash[train])
    if "hardware" in without and len(devices) > 1:
        log.warning(
            "data.without=[hardware], but the records are of %d devices (%s): the model cannot distinguish "
            "them and learns their mean",
            len(devices),
            ", ".join(devices),
        )
    if len(tasks) == 1:
        log.warning(
            "all %d records to train on are of one task (%s): the model will not generalise to others; add "
            "tasks with foretune generate",
            len(train),
            tasks[0],
        )
    alone = np.bincount(labels.group[train])
    if np.all(alone <= 1):
        log.warning(
            "no task has two records to train on, so the model cannot learn to rank a task's programs"
        )


def _processes() -> tuple[int, int]:
    """Index of this process among the processes of a training, and their number."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


def _as_is(batch: Any) -> Any:
    return batch
