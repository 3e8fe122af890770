"""Operators of random networks, which are also part of Fasor's dataset (section 7.1).

Fasor uses networks from architecture search, linear stacks of convolutions with different settings, and
randomly wired networks. A family here creates such networks one at a time. Each runs on the `meta` device,
and its operators are read with the steps fused after them, as for a zoo's networks.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from ....compiler.operators import OperatorSettings, SettingsError, settings_class
from ..zoo.operator_log import log_operators
from . import random_image_networks as images
from . import random_sequence_networks as sequences
from .random_layers import MadeNetwork, Rng

Family: TypeAlias = Callable[[Rng], MadeNetwork]
"""Creates a network; called under `torch.device("meta")`."""

FAMILIES: dict[str, Family] = {
    family.__name__: family
    for family in (
        images.linear_stack,
        images.searched_network,
        images.wired_network,
        images.decoder,
        sequences.transformer,
        sequences.sequence_network,
        sequences.video_network,
        images.group_normed_network,
        images.separated_video_network,
    )
}
"""Families by the names that operators refer to."""

MAX_NETWORKS = 1000
"""Consecutive networks without the wanted operator before giving up."""


def families_of(cls: type[OperatorSettings]) -> tuple[Family, ...]:
    """Families of networks that call an operator."""
    return tuple(FAMILIES[one] if isinstance(one, str) else one for one in cls.random_networks)


class RandomNetworks:
    """Sampler of random networks' operators; each distinct operator of a network appears once."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, deque[OperatorSettings]] = defaultdict(deque)

    def sample(self, operator: str, rng: Rng) -> OperatorSettings:
        """The next operator of this type: float32, channels first, of batch 1, with its epilogue.

        Raises SettingsError.
        """
        cls = settings_class(operator)
        families = families_of(cls)
        if not families:
            return self._derive(cls, rng)
        for _ in range(MAX_NETWORKS):
            if self._waiting[operator]:
                return self._waiting[operator].popleft()
            family = families[rng.integers(len(families))]
            for settings in log_operators(partial(family, rng)).calls:
                self._waiting[settings.operator].append(settings)
        raise SettingsError(f"operator={operator}: {MAX_NETWORKS} random networks in a row had none")

    def _derive(self, cls: type[OperatorSettings], rng: Rng) -> OperatorSettings:
        """Settings derived from another operator's."""
        if not cls.made_of:
            raise SettingsError(
                f"operator={cls.operator}: no random networks have it; use another sampler, or give "
                f"{cls.__name__} families in `random_networks`"
            )
        while True:
            derived = cls.derive(self.sample(cls.made_of, rng))
            if derived is not None:
                return derived
