"""Lightning module of the deep Q-network: an epoch walks, remembers and learns (Fasor, Algorithm 1)."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Sequence

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from ...dataset.features.table import draft_table
from ...models.architectures.cost_model import FeatureNetwork, FeatureTensors
from ...models.architectures.explorer import MODES, Explorer
from ...models.scaling.normaliser import Normaliser
from .config import ReinforceConfig
from .environment import Environment
from .judging import best_times
from .policy import epsilon_of, target_values
from .replay_memory import ReplayMemory
from .tasks import ExplorationTasks, task_space
from .walks import collect

LOG_SCORE = "validation/log_score"
"""Logged after each epoch; the epoch of the highest is kept."""

log = logging.getLogger(__name__)


class ExplorerModule(pl.LightningModule):
    """Q-learning of one network.

    The values of next states come from a copy of the network that is renewed every epoch: Algorithm 1 takes
    them from the network that is trained, which chases its own outputs. A resumed training fills its memory
    anew, with the walks of the next epoch.
    """

    def __init__(
        self,
        network: FeatureNetwork,
        normaliser: Normaliser,
        environment: Environment,
        tasks: ExplorationTasks,
        config: ReinforceConfig,
    ) -> None:
        super().__init__()
        self.network = network
        self.config = config
        self.memory = ReplayMemory(config.learning.memory)
        self.rng = np.random.default_rng(config.seed)
        self._normaliser = normaliser
        self._environment = environment
        self._train = tasks.train
        self._validation = [task_space(found) for found in tasks.validation[: config.judging.spaces]]
        self._frozen: list[FeatureNetwork] = []  # in a list, so that Lightning does not take it for a part
        self._began: tuple[float, int] | None = None  # time and epoch, for the estimate of the remaining time

    def explorer(self) -> Explorer:
        """Explorer with the current network."""
        return Explorer(self._normaliser, self.network)

    def train_dataloader(self) -> Sequence[int]:
        """Numbers of the updates of an epoch; each draws its batch, since the memory is still empty here."""
        return range(self.config.learning.updates)

    def on_train_epoch_start(self) -> None:
        """Walks with the current network, and renews the copy that values next states."""
        self._began = self._began or (time.monotonic(), self.current_epoch)
        self.rng = np.random.default_rng((self.config.seed, self.current_epoch))
        self._frozen = [copy.deepcopy(self.network).eval().requires_grad_(False)]
        walk = self.config.walk
        chosen = self.rng.choice(len(self._train), min(walk.spaces, len(self._train)), replace=False)
        found = [self._train[number] for number in chosen]
        spaces = [task_space(one) for one in found]
        starts = [
            # Half of the walks begin with measured programs, as searches from pretuned schedules do.
            np.concatenate(
                [
                    space.space.canonical(self.rng.choice(one.programs, walk.starts // 2)),
                    space.draw(walk.starts - walk.starts // 2, self.rng),
                ]
            )
            for one, space in zip(found, spaces, strict=True)
        ]
        self.memory.add(
            collect(
                self._environment,
                spaces,
                starts,
                Explorer(self._normaliser, self._frozen[0]),
                self.config.reward,
                steps=walk.steps,
                epsilon=self.epsilon,
                rng=self.rng,
            )
        )

    @property
    def epsilon(self) -> float:
        """Probability of a random action in the current epoch."""
        learning = self.config.learning
        return epsilon_of(self.current_epoch, learning.epsilon, learning.epsilon_decay)

    def training_step(self, update: int, _: int) -> Tensor:
        """Mean squared error of the Q-values of a batch (Algorithm 1, lines 14 and 15)."""
        batch = self.memory.sample(self.config.learning.batch_size, self.rng)
        following = Explorer(self._normaliser, self._frozen[0]).values(
            draft_table(batch.next_vectors, batch.hardware)
        )
        learning = self.config.learning
        targets = target_values(batch.reward, following, batch.next_legal, batch.ends, learning.discount)
        states = self._normaliser.batch(draft_table(batch.vectors, batch.hardware).batch())
        columns = self.network.all_columns(FeatureTensors.of(states))
        values = columns.reshape(len(batch), len(MODES), -1)[torch.arange(len(batch)), :, batch.action]
        loss = nn.functional.mse_loss(values, torch.from_numpy(targets))
        self.log("train/loss", loss, batch_size=len(batch), on_step=False, on_epoch=True)
        return loss

    def on_train_epoch_end(self) -> None:
        """Searches the validation tasks, and logs the progress of the training."""
        self.network.eval()
        config = self.config
        times = best_times(
            *(self._environment, self._validation, self.explorer(), config.judging, MODES[0], config.seed)
        )
        self.network.train()
        self.log(LOG_SCORE, -float(times.mean()))
        done, epochs = self.current_epoch + 1, self.config.epochs
        began, first = self._began or (time.monotonic(), 0)
        seconds = (time.monotonic() - began) / (done - first)
        log.info(
            "epoch %d of %d: best validation scores of %.3f, epsilon %.2f, about %.0f s left",
            *(done, epochs, float(np.exp(-times).mean()), self.epsilon, seconds * (epochs - done)),
        )

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam, as the paper's (section 7)."""
        return torch.optim.Adam(self.network.parameters(), self.config.learning.learning_rate)
