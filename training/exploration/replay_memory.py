"""Replay memory of moves (Fasor, Algorithm 1, lines 1 and 13): a ring that forgets the oldest first."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Moves:
    """n moves: from a state by an action to the next state; arrays are [n, ...]."""

    vectors: NDArray[np.float32]  # [n, state]: task, draft vector and progress
    hardware: NDArray[np.float32]  # [n, HARDWARE_DIM]
    action: NDArray[np.int64]
    reward: NDArray[np.float32]  # [n, modes]
    next_vectors: NDArray[np.float32]  # [n, state]
    next_legal: NDArray[np.bool_]  # [n, actions]
    ends: NDArray[np.bool_]
    """Whether the walk ends in the next state."""

    def __len__(self) -> int:
        return len(self.action)

    def take(self, rows: NDArray[np.int64]) -> Moves:
        """The given moves, in the order of `rows`."""
        return Moves(*(getattr(self, field.name)[rows] for field in fields(self)))


class ReplayMemory:
    """The last `capacity` moves."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._moves: Moves | None = None
        self._next = 0
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, moves: Moves) -> None:
        """Stores moves; of more than the capacity, the last."""
        moves = moves.take(np.arange(max(len(moves) - self.capacity, 0), len(moves)))
        if self._moves is None:
            self._moves = Moves(
                *(
                    np.zeros((self.capacity, *(of := getattr(moves, field.name)).shape[1:]), of.dtype)
                    for field in fields(moves)
                )
            )
        places = (self._next + np.arange(len(moves))) % self.capacity
        for field in fields(moves):
            getattr(self._moves, field.name)[places] = getattr(moves, field.name)
        self._next = (self._next + len(moves)) % self.capacity
        self._size = min(self._size + len(moves), self.capacity)

    def sample(self, count: int, rng: np.random.Generator) -> Moves:
        """`count` moves drawn evenly, with repetition; raises ValueError from an empty memory."""
        if self._moves is None:
            raise ValueError("the replay memory is empty: add moves before sampling")
        return self._moves.take(rng.integers(0, self._size, count))
