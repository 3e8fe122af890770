"""Settings drawn uniformly: the sampler that One-Shot Tuner (section 6.3.2) compares its prior with."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from ....compiler.operators import OperatorSettings, SettingsError, settings_class

MAX_REDRAWS = 1000
"""Consecutive draws of impossible settings, such as groups that divide no channels, before giving up."""


def sample_uniform(operator: str, rng: np.random.Generator) -> OperatorSettings:
    """Every setting uniform over its range, of batch 1; a window's input has equal sides and fits it.

    Raises SettingsError if no draw is possible.
    """
    cls = settings_class(operator)
    names = {field.name for field in fields(cls)}
    problem = ""
    for _ in range(MAX_REDRAWS):
        values = cls.draw_uniform(rng)
        try:
            return cls.from_dict({name: value for name, value in values.items() if name in names})
        except SettingsError as error:
            problem = str(error)
    raise SettingsError(
        f"operator={operator}: {MAX_REDRAWS} uniform draws in a row were impossible, the last by {problem}"
    )
