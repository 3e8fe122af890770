"""Settings of commands as Hydra composes them, from files that are read once for each choice of presets."""

from __future__ import annotations

import copy
import itertools
import re
from functools import cache

from hydra import compose, initialize_config_module
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig

from .paths import ROOT


def composed(name: str, *overrides: str) -> DictConfig:
    """Configuration of a command with overrides of Hydra. Raises HydraException."""
    values = OverridesParser.create().parse_overrides([*filter(_is_value, overrides)])
    config = copy.deepcopy(_of_choices(name, *itertools.filterfalse(_is_value, overrides)))
    ConfigLoaderImpl._apply_overrides_to_config(values, config)  # as `compose` does in the end
    return config


def _is_value(override: str) -> bool:
    """Whether an override sets an option, and chooses no file of the configuration."""
    found = re.match(r"([\w.]+)=", override)
    return found is not None and not found[1].startswith("hydra.") and not (ROOT / "conf" / found[1]).is_dir()


@cache
def _of_choices(name: str, *choices: str) -> DictConfig:
    """Configuration with these choices, for which Hydra takes a sixth of a second."""
    with initialize_config_module("foretune.conf", version_base="1.3"):
        return compose(name, [*choices])
