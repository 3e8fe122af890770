"""Action-value network of Fasor's deep Q-network (section 6.2.2), and its use on raw features.

The state is the representation of a program that draft models read: task vector, draft vector and hardware
vector (section 4.1: arithmetic features, serialised schedule, memory access, device), and how far the walk
has come. Figure 5 passes it through three fully connected layers. The paper ends them in a softmax; values of
rewards that may be negative need none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...compiler.structure import DRAFT_VERSION
from ...dataset.features.moves import ACTION_VERSION, ACTIONS
from ...dataset.features.table import FeatureTable
from ..scaling.normaliser import FeatureDims, Normaliser
from .cost_model import FeatureNetwork, FeatureTensors
from .registry import register
from .sizes import Width

MODES = ("high_efficiency", "high_quality")
"""Modes of the search (section 6.2.1); each weights the terms of the reward in its own way."""

STATE_VERSION = f"{DRAFT_VERSION} {ACTION_VERSION}"
"""Version of the states that an explorer reads, and of the actions that its outputs value."""


@register("dqn")
class ActionValueNetwork(FeatureNetwork):
    """Three fully connected layers from a state to the Q-value of each action, in each mode."""

    feature_version = STATE_VERSION

    def __init__(self, dims: FeatureDims, width: Width = 256) -> None:
        super().__init__()
        self.columns = tuple(f"{mode}, {action.name}" for mode in MODES for action in ACTIONS)
        self.network = nn.Sequential(
            nn.Linear(dims.task + dims.hardware, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, len(self.columns)),
        )

    def all_columns(self, features: FeatureTensors) -> Tensor:
        """Q-values float32 [n, modes * actions]; see `FeatureNetwork.all_columns`."""
        values: Tensor = self.network(torch.cat([features.task, features.hardware], dim=-1))
        return values


@dataclass(frozen=True)
class Explorer:
    """Trained action-value network over raw states."""

    normaliser: Normaliser
    network: FeatureNetwork

    def values(self, states: FeatureTable) -> NDArray[np.float32]:
        """Q-values float32 [n, modes, actions] of states, whether or not an action is legal there.

        Raises ValueError for states of other dimensions, or with NaN.
        """
        batch = self.normaliser.batch(states.batch())
        with torch.inference_mode():
            found = self.network.all_columns(FeatureTensors.of(batch)).numpy()
        if np.isnan(found).any():
            raise ValueError("the states contain NaN: regenerate the features")
        return found.reshape(len(states), len(MODES), len(ACTIONS))
