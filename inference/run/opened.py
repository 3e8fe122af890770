"""Parts that a tuning run works with, once its target and its device are known."""

from __future__ import annotations

from dataclasses import dataclass

from tvm.target import Target

from ...dataset.hardware import Hardware
from ..database.tuning_database import TuningDatabase
from ..workers.workforce import Workforce


@dataclass(frozen=True)
class Opened:
    """Parts that a run works with."""

    target: Target
    hardware: Hardware
    workforce: Workforce
    database: TuningDatabase
