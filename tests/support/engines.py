"""Engines of a network that doubles its input; they fail in the ways in which a rival may."""

from __future__ import annotations

import os
import time
from typing import ClassVar

import numpy as np
from foretune.inference.deploy.rivals.base import Bind, Engine, Form, NetworkSource


class Doubling(Engine):
    """Engine that gives twice its first input, at once."""

    title = "doubling"
    form = Form.LIBRARY  # needs no torch, and so starts at once
    module = package = "numpy"
    factor: ClassVar[float] = 2.0

    def prepare(self) -> None:
        pass

    def load(self, source: NetworkSource) -> Bind:
        return lambda inputs: lambda: [self.factor * inputs[0]]


class Tripling(Doubling):
    title = "tripling"
    factor = 3.0


class WrongShape(Doubling):
    title = "wrong shape"

    def load(self, source: NetworkSource) -> Bind:
        return lambda inputs: lambda: [np.zeros(7, np.float32)]


class Dying(Doubling):
    title = "dying"

    def load(self, source: NetworkSource) -> Bind:
        os.abort()


class Hanging(Doubling):
    title = "hanging"

    def load(self, source: NetworkSource) -> Bind:
        time.sleep(600)
        raise AssertionError


class DyingLater(Doubling):
    """Ends while it is timed."""

    title = "dying later"

    def load(self, source: NetworkSource) -> Bind:
        call = super().load(source)(source.inputs)
        calls = iter(range(50))

        def die_later() -> list[np.ndarray]:
            if next(calls, None) is None:
                os._exit(3)
            return call()

        return lambda inputs: die_later


class Raising(Doubling):
    title = "raising"

    def load(self, source: NetworkSource) -> Bind:
        raise NotImplementedError("no such operator: doubling\nand more lines")


class Absent(Doubling):
    title = "absent"
    module = package = "no_such_package"
