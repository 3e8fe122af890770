"""Members of a model: their initial weights, frozen parts and fitting, by Lightning or as boosted trees."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytorch_lightning as pl
import torch
from torch import nn

from ...configuration import SEEDS, ConfigError
from ...models.architectures.cost_model import CostModel
from ...models.architectures.registry import ModelConfig, build_model
from ...models.architectures.trees import TreesCostModel
from ...models.losses.losses import LossConfig
from ...models.scaling.normaliser import FeatureDims
from ...models.scaling.target import TargetConfig
from ...wording import counted
from .config import TrainerConfig
from .datamodule import CostModelData, DataError
from .fit import Trained, fit
from .module import CostModelModule, OptimiserConfig

log = logging.getLogger(__name__)

_SEED_STEP = 1_000_003  # between the members of an ensemble, so that small seeds have no member in common
_LOG_INTERVAL = 100  # trees


@dataclass(frozen=True)
class FitConfig:
    """Settings of the fitting of each member.

    `resume` continues an interrupted training in its folder. `further` fits trees that have a structure by
    gradients, as a network.
    """

    target: TargetConfig
    loss: LossConfig
    optimiser: OptimiserConfig
    trainer: TrainerConfig
    seed: int = 0
    resume: bool = False
    further: bool = False


def new_members(model: ModelConfig, dims: FeatureDims, seed: int) -> list[CostModel]:
    """Newly initialised members of an ensemble, or one model."""
    members = []
    for number, single in enumerate(model.singles):
        pl.seed_everything(_seed_of(seed, number), verbose=False)
        members.append(build_model(single, dims))
    return members


def train_only(members: Sequence[nn.Module], parts: Sequence[str]) -> int:
    """Freezes every parameter outside the named parts; without names all parameters are trained.

    Args:
      members: members of an ensemble, or one model.
      parts: dotted names of modules or parameters, such as "head" or "encoder.layers.2". At least one member
        must have each; a member that has none is frozen.

    Returns:
      Number of scalars that are trained.

    Raises:
      ConfigError: no member has a part of that name.
    """
    named = [named for member in members for named in member.named_parameters()]
    for part in parts:
        if not any(_is_in(name, part) for name, _ in named):
            tops = dict.fromkeys(name.partition(".")[0] for name, _ in named)
            raise ConfigError(f"train_only={part!r}: the model has no such part; it has {', '.join(tops)}")
    for name, parameter in named:
        parameter.requires_grad_(not parts or any(_is_in(name, part) for part in parts))
    return sum(parameter.numel() for _, parameter in named if parameter.requires_grad)


def fit_members(
    members: Sequence[CostModel], records: CostModelData, config: FitConfig, folder: Path
) -> list[Trained]:
    """Fits the members in sequence; several members have a folder each below `folder`.

    Returns the epochs of the members that are trained by epochs: not trees, and not frozen members.
    """
    trained = []
    for number, member in enumerate(members):
        of_member = folder if len(members) == 1 else folder / f"member-{number}"
        if len(members) > 1:
            log.info("member %d of %d", number + 1, len(members))
        seed = _seed_of(config.seed, number)
        pl.seed_everything(seed, verbose=False)
        records.reseed(seed)
        if isinstance(member, TreesCostModel) and not config.further:
            fit_trees(member, records, config.target, config.loss, seed)
        elif any(weights.requires_grad for weights in member.parameters()):
            records.set_columns(member.columns)
            module = CostModelModule(member, config.target, config.loss, config.optimiser)
            trained.append(fit(module, records, config.trainer, of_member, config.resume))
    return trained


def fit_trees(
    model: TreesCostModel, records: CostModelData, target: TargetConfig, loss: LossConfig, seed: int
) -> None:
    """Fits the trees to the training rows until the validation error no longer improves.

    The only part of the loss that applies is `offset`. Fitting takes minutes at most, so an interrupted
    one is repeated.

    Raises:
      DataError: the stores, which trees read, are left out.
    """
    if "stores" in records.normaliser.without:
        raise DataError("data.without has stores, which trees read: leave them in, or train a network")
    number = model.fit(
        records.features,
        records.train.rows,
        records.validation.rows,
        records.normaliser,
        target.decode(records.targets.primary),
        records.labels.group,
        target,
        loss.offset,
        seed,
        torch.get_num_threads(),
        lambda trees: log.info("tree %4d", trees) if trees % _LOG_INTERVAL == 0 else None,
    )
    log.info("%s", counted(number, "tree"))


def _seed_of(seed: int, member: int) -> int:
    return (seed + member * _SEED_STEP) % SEEDS


def _is_in(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}.")
