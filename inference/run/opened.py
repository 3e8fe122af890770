"""Parts of a tuning run, created once its target and device are known."""

from __future__ import annotations

from dataclasses import dataclass

from tvm.target import Target

from ...dataset.hardware import Hardware
from ..database.tuning_database import TuningDatabase
from ..workers.workforce import Workforce


@dataclass(frozen=True)
class Opened:
    """Parts of a tuning run."""

    target: Target
    hardware: Hardware
    workforce: Workforce
    database: TuningDatabase
