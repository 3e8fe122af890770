"""Registry of the networks that a configuration or a card may name, and their construction."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ...errors import UserError
from ...json_fields import check_arguments
from ..scaling.normaliser import FeatureDims
from .cost_model import CostModel, FeatureNetwork
from .ensemble import EnsembleCostModel
from .sizes import MOST_MEMBERS, Members

MODELS: dict[str, type[CostModel]] = {}
"""Cost models by name. A checkpoint can name no other class: only modules of this package register one."""

EXPLORERS: dict[str, type[FeatureNetwork]] = {}
"""Networks that choose moves instead of scoring programs; `foretune reinforce` trains them."""

_Network = TypeVar("_Network", bound=type[FeatureNetwork])


def register(name: str) -> Callable[[_Network], _Network]:
    """Class decorator that adds a network under the name that configurations and cards give.

    Raises:
      ValueError: another class has the name.
    """

    def add(cls: _Network) -> _Network:
        if name in MODELS or name in EXPLORERS:
            other = network_class(name)
            raise ValueError(
                f"model {name!r} of {cls.__module__}.{cls.__name__}: {other.__module__} has it; choose "
                "another name"
            )
        if issubclass(cls, CostModel):
            MODELS[name] = cls
        else:
            EXPLORERS[name] = cls
        return cls

    return add


def discover(package: str, folders: Iterable[str]) -> None:
    """Imports the modules in the folders of a package by name, so that their networks are registered."""
    for name in sorted(module.name for module in pkgutil.iter_modules(folders)):
        importlib.import_module(f"{package}.{name}")


def network_class(name: str) -> type[FeatureNetwork]:
    """Class of a registered network."""
    return MODELS[name] if name in MODELS else EXPLORERS[name]


class ModelConfigError(UserError, ValueError):
    """The model's name or one of its arguments is unknown or invalid."""


@dataclass(frozen=True)
class MemberConfig:
    """Cost models of one kind: its name, the keyword arguments of its constructor, and their number."""

    name: str = "transformer"
    arguments: dict[str, Any] = field(default_factory=dict)
    members: Members = 1

    def __post_init__(self) -> None:
        if not 1 <= self.members <= MOST_MEMBERS:
            raise ModelConfigError(
                f"model.members={self.members}: set 1 for one model, up to {MOST_MEMBERS} for an ensemble"
            )
        if self.name not in MODELS and self.name not in EXPLORERS:
            raise ModelConfigError(f"model.name={self.name!r} is unknown: choose one of {', '.join(MODELS)}")
        if self.name in EXPLORERS and self.members > 1:
            raise ModelConfigError(f"model.members={self.members}: an explorer ({self.name}) has one network")
        parameters = inspect.signature(network_class(self.name)).parameters
        known = [name for name in parameters if name != "dims"]
        unknown = sorted(set(self.arguments) - set(known))
        if unknown:
            raise ModelConfigError(
                f"model {self.name!r} has no argument {', '.join(unknown)}; it takes {', '.join(known)}"
            )
        try:
            check_arguments(network_class(self.name).__init__, self.arguments, "model.arguments.")
        except ValueError as error:
            raise ModelConfigError(f"{error}; choose another value for the model {self.name!r}") from error


@dataclass(frozen=True)
class ModelConfig(MemberConfig):
    """Cost model, or ensemble of `members` models of one kind that differ in their initialisation.

    `beside` lists further kinds of members of the ensemble.
    """

    beside: list[MemberConfig] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        versions = {feature_version_of(kind.name) for kind in self.kinds}
        if len(versions) > 1:
            raise ModelConfigError(
                f"model.beside: {self.title} read different features: combine draft models "
                "with draft models only"
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
        return network_class(config.name)(dims, **config.arguments)
    except (TypeError, ValueError, AssertionError, RuntimeError, MemoryError, ArithmeticError) as error:
        raise ModelConfigError(f"model {config.name!r} with {config.arguments}: {error}") from error


def feature_version_of(model: str) -> str:
    """Version of the features that the named network reads."""
    return network_class(model).feature_version
