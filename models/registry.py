"""The cost models that a configuration or a card may name, and how to build one."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..dataset.drafting import DRAFT_VERSION
from ..dataset.features import FEATURE_VERSION
from ..errors import UserError
from .cost_model import CostModel
from .draft import DraftCostModel
from .ensemble import EnsembleCostModel
from .lstm import LstmCostModel
from .mlp import MlpCostModel
from .normaliser import FeatureDims
from .transformer import TransformerCostModel
from .trees import TreesCostModel

MODELS: Mapping[str, type[CostModel]] = {
    "transformer": TransformerCostModel,
    "mlp": MlpCostModel,
    "lstm": LstmCostModel,
    "draft": DraftCostModel,
    "trees": TreesCostModel,
}
"""A fixed table, because a checkpoint must not be able to name a class of its choice."""


class ModelConfigError(UserError, ValueError):
    """The model's name or one of its arguments is not known or not valid."""


@dataclass(frozen=True)
class MemberConfig:
    """Cost models of one kind: its name, the keyword arguments of its constructor, and how many."""

    name: str = "transformer"
    arguments: dict[str, Any] = field(default_factory=dict)
    members: int = 1

    def __post_init__(self) -> None:
        if self.members < 1:
            raise ModelConfigError(f"model.members={self.members}: set 1 for one model, more for an ensemble")
        if self.name not in MODELS:
            raise ModelConfigError(f"model.name={self.name!r} is unknown: choose one of {', '.join(MODELS)}")
        known = [name for name in inspect.signature(MODELS[self.name]).parameters if name != "dims"]
        unknown = sorted(set(self.arguments) - set(known))
        if unknown:
            raise ModelConfigError(
                f"model {self.name!r} has no argument {', '.join(unknown)}; it takes {', '.join(known)}"
            )


@dataclass(frozen=True)
class ModelConfig(MemberConfig):
    """A cost model, or the ensemble of `members` of one kind, which differ by their initialisation.

    `beside` adds members of other kinds to the ensemble.
    """

    beside: list[MemberConfig] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        versions = {feature_version_of(kind.name) for kind in self.kinds}
        if len(versions) > 1:
            raise ModelConfigError(
                f"model.beside: {self.title} read other features than each other; keep draft models apart"
            )

    @property
    def kinds(self) -> list[MemberConfig]:
        """Every kind of member, each with how many of it there are."""
        return [MemberConfig(self.name, self.arguments, self.members), *self.beside]

    @property
    def singles(self) -> list[ModelConfig]:
        """One configuration for each member, in the ensemble's order."""
        return [ModelConfig(kind.name, kind.arguments) for kind in self.kinds for _ in range(kind.members)]

    @property
    def title(self) -> str:
        """The kinds in words, as in "3 x mlp + trees"."""
        return " + ".join(f"{k.members} x {k.name}" if k.members > 1 else k.name for k in self.kinds)


def build_model(config: ModelConfig, dims: FeatureDims) -> CostModel:
    """A freshly initialised model; seed torch before the call for a fixed initialisation.

    Raises:
      ModelConfigError: an argument has a value that the model rejects.
    """
    singles = config.singles
    if len(singles) > 1:
        return EnsembleCostModel([build_model(single, dims) for single in singles])
    try:
        return MODELS[config.name](dims, **config.arguments)
    except (TypeError, ValueError, AssertionError, RuntimeError) as error:
        raise ModelConfigError(f"model {config.name!r} with {config.arguments}: {error}") from error


def feature_version_of(model: str) -> str:
    """Version of the features that a model of that name reads: draft vectors, or those of programs."""
    return DRAFT_VERSION if model == "draft" else FEATURE_VERSION
