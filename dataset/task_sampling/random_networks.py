"""Operators of networks made up at random, as part of Fasor's dataset is (section 7.1).

Fasor takes networks of architecture search, linear stacks of convolutions with different settings, and
randomly wired networks. A family here makes one network after the other; each is run on the `meta` device and
its operators are read as those of a zoo are, with what is fused behind them.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from ..operators import OperatorSettings, SettingsError, settings_class
from ..zoo.operator_log import log_operators
from .derived import DERIVED
from .random_grouped_networks import group_normed_network, separated_video_network
from .random_image_networks import decoder, linear_stack, searched_network, wired_network
from .random_layers import MadeNetwork, Rng
from .random_sequence_networks import sequence_network, transformer, video_network

Family: TypeAlias = Callable[[Rng], MadeNetwork]
"""Makes a network; called under `torch.device("meta")`."""

MAX_NETWORKS = 1000
"""Networks made in a row without the operator that is looked for before giving up."""


class RandomNetworks:
    """Gives the operators of random networks one by one, each distinct one of a network once."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, deque[OperatorSettings]] = defaultdict(deque)

    def sample(self, operator: str, rng: Rng) -> OperatorSettings:
        """The next operator of this type: float32, channels first, of batch 1, with its epilogue."""
        settings_class(operator)
        if operator not in FAMILIES:
            return self._derive(operator, rng)
        families = FAMILIES[operator]
        for _ in range(MAX_NETWORKS):
            if self._waiting[operator]:
                return self._waiting[operator].popleft()
            family = families[rng.integers(len(families))]
            for settings in log_operators(partial(family, rng)).calls:
                self._waiting[settings.operator].append(settings)
        raise SettingsError(f"operator={operator}: {MAX_NETWORKS} random networks in a row had none")

    def _derive(self, operator: str, rng: Rng) -> OperatorSettings:
        while True:
            derived = DERIVED[operator](self.sample("conv2d", rng))
            if derived is not None:
                return derived


FAMILIES: Mapping[str, tuple[Family, ...]] = {
    "conv2d": (linear_stack, searched_network, wired_network),
    "depthwise_conv2d": (linear_stack, searched_network, wired_network),
    "group_conv2d": (linear_stack,),
    "conv1d": (sequence_network,),
    "conv3d": (video_network,),
    "group_conv3d": (separated_video_network,),
    "conv1d_transpose": (sequence_network,),
    "conv2d_transpose": (decoder,),
    "dense": (transformer, transformer, linear_stack),
    "batch_matmul": (transformer,),
    "softmax": (transformer,),
    "layer_norm": (transformer,),
    "batch_norm": (linear_stack,),
    "group_norm": (group_normed_network,),
    "frobenius_norm": (transformer,),
    "pool2d": (linear_stack, searched_network),
    "reduction": (transformer, video_network),
}
"""Families whose networks have an operator."""
