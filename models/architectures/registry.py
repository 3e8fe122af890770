"""Registry of the cost models that a configuration or a card may name, and their construction."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...compiler.structure import DRAFT_VERSION
from ...dataset.features import FEATURE_VERSION
from ...errors import UserError
from ..scaling.normaliser import FeatureDims
from .cost_model import CostModel, FeatureNetwork
from .draft import DraftCostModel
from .ensemble import EnsembleCostModel
from .explorer import STATE_VERSION, ActionValueNetwork
from .lstm import LstmCostModel
from .mlp import MlpCostModel
from .transformer import TransformerCostModel
from .trees import TreesCostModel

MODELS: Mapping[str, type[CostModel]] = {
    "transformer": TransformerCostModel,
    "mlp": MlpCostModel,
    "lstm": LstmCostModel,
    "draft": DraftCostModel,
    "trees": TreesCostModel,
}
"""Fixed table of models, so that a checkpoint cannot name an arbitrary class."""

EXPLORERS: Mapping[str, type[FeatureNetwork]] = {"dqn": ActionValueNetwork}
"""Networks that choose moves in place of scoring programs; `foretune reinforce` trains them."""

NETWORKS: Mapping[str, type[FeatureNetwork]] = {**MODELS, **EXPLORERS}
"""All networks that a card may name."""


class ModelConfigError(UserError, ValueError):
    """The model's name or one of its arguments is unknown or invalid."""


@dataclass(frozen=True)
class MemberConfig:
    """Cost models of one kind: its name, the keyword arguments of its constructor, and their number."""

    name: str = "transformer"
    arguments: dict[str, Any] = field(default_factory=dict)
    members: int = 1

    def __post_init__(self) -> None:
        if self.members < 1:
            raise ModelConfigError(f"model.members={self.members}: set 1 for one model, more for an ensemble")
        if self.name not in NETWORKS:
            raise ModelConfigError(f"model.name={self.name!r} is unknown: choose one of {', '.join(MODELS)}")
        if self.name in EXPLORERS and self.members > 1:
            raise ModelConfigError(f"model.members={self.members}: an explorer ({self.name}) has one network")
        known = [name for name in inspect.signature(NETWORKS[self.name]).parameters if name != "dims"]
        unknown = sorted(set(self.arguments) - set(known))
        if unknown:
            raise ModelConfigError(
                f"model {self.name!r} has no argument {', '.join(unknown)}; it takes {', '.join(known)}"
            )


@dataclass(frozen=True)
class ModelConfig(MemberConfig):
    """Cost model, or ensemble of `members` models of one kind that differ in their initialisation.

    `beside` adds members of other kinds to the ensemble.
    """

    beside: list[MemberConfig] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        versions = {feature_version_of(kind.name) for kind in self.kinds}
        if len(versions) > 1:
            raise ModelConfigError(
                f"model.beside: {self.title} read different features: combine draft models "
                "with draft models alone"
            )

    @property
    def kinds(self) -> list[MemberConfig]:
        """Every kind of member with the number of its members."""
        return [MemberConfig(self.name, self.arguments, self.members), *self.beside]

    @property
    def singles(self) -> list[ModelConfig]:
        """One configuration for each member, in the ensemble's order."""
        return [ModelConfig(kind.name, kind.arguments) for kind in self.kinds for _ in range(kind.members)]

    @property
    def title(self) -> str:
        """Kinds of members as text, such as "3 x mlp + trees"."""
        return " + ".join(f"{k.members} x {k.name}" if k.members > 1 else k.name for k in self.kinds)


def build_model(config: ModelConfig, dims: FeatureDims) -> CostModel:
    """Newly initialised cost model; seed torch before the call for a reproducible initialisation.

    Raises:
      ModelConfigError: an argument has a value that the model rejects, or the model is an explorer.
    """
    network = build_network(config, dims)
    if not isinstance(network, CostModel):
        raise ModelConfigError(
            f"model {config.name!r} chooses moves and scores no programs: train it with foretune reinforce"
        )
    return network


def build_network(config: ModelConfig, dims: FeatureDims) -> FeatureNetwork:
    """Newly initialised cost model or explorer; raises ModelConfigError as `build_model` does."""
    singles = config.singles
    if len(singles) > 1:
        return EnsembleCostModel([build_model(single, dims) for single in singles])
    try:
        return NETWORKS[config.name](dims, **config.arguments)
    except (TypeError, ValueError, AssertionError, RuntimeError) as error:
        raise ModelConfigError(f"model {config.name!r} with {config.arguments}: {error}") from error


def feature_version_of(model: str) -> str:
    """Version of what the named model reads: features of programs, draft vectors, or states of a search."""
    if model in EXPLORERS:
        return STATE_VERSION
    return DRAFT_VERSION if model == "draft" else FEATURE_VERSION
