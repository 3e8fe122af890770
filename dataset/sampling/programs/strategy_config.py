"""Base class of the settings of search algorithms, which dataset generation and tuning share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ....errors import UserError


class SamplingError(UserError, ValueError):
    """A setting of program sampling is invalid."""


class StrategyConfigError(SamplingError):
    """A setting of a search algorithm is out of range.

    `setting` is the message without the algorithm's name: the option, its value, and the allowed values.
    """

    def __init__(self, algorithm: str, setting: str) -> None:
        super().__init__(f"{algorithm}.{setting}")
        self.setting = setting


@dataclass(frozen=True)
class StrategyConfig:
    """Settings of a search algorithm; subclasses add theirs.

    They are the fields of conf/search/strategy/<name>.yaml, and of `program_sampling.<name>` in
    conf/generate.yaml for algorithms that sample a dataset.
    """

    name: str
    """Name of the algorithm, for choosing it in `search/strategy`."""

    def check_at_least(self, bounds: Mapping[str, float]) -> None:
        """Raises StrategyConfigError for a field below its bound; None passes."""
        for name, bound in bounds.items():
            value = getattr(self, name)
            if value is not None and value < bound:
                raise StrategyConfigError(self.name, f"{name}={value}: must be at least {bound}")

    def check_shares(self, *names: str) -> None:
        """Raises StrategyConfigError for a field outside [0, 1]."""
        for name in names:
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise StrategyConfigError(self.name, f"{name}={value}: must be in [0, 1]")
