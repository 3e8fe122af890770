"""Runs one command under Hydra, which composes its settings, and reports a wrong setting in one line."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from . import option_help
from .configuration import ConfigError, unknown_option
from .errors import FULL_ERROR, exits_cleanly, shows_tracebacks

FLAGS = (
    *("help", "hydra-help", "version", "cfg", "resolve", "package", "run", "multirun", "shell-completion"),
    *("config-path", "config-name", "config-dir", "experimental-rerun", "info"),
)
"""Hydra's long flags."""

Job = Callable[[DictConfig], int | None]
"""Takes composed settings and returns the exit status, None for 0."""


def run_command(config_name: str, job: Job, words: Sequence[str]) -> None:
    """Composes conf/`config_name`.yaml with the overrides among `words`, and calls `job` with the result.

    Hydra's flags, such as --help, --cfg and --multirun, work as in any application of Hydra.

    Raises:
      ConfigError: an option is unknown or cannot be read.
      SystemExit: `job` returned a status other than 0 or raised UserError.
    """
    _refuse_dashes(words)
    option_help.register()
    full_error = shows_tracebacks()
    with _given_to_hydra(words) as composed:

        @exits_cleanly()
        def task(config: DictConfig) -> None:
            composed()
            if status := job(config):
                raise SystemExit(status)

        main = hydra.main(version_base="1.3", config_path="pkg://foretune.conf", config_name=config_name)
        try:
            main(task)()
        except (HydraException, OmegaConfBaseException, OSError) as error:
            if full_error:
                raise
            raise ConfigError(_in_one_line(error)) from error


def restore_log_levels() -> None:
    """Sets the levels of conf/hydra/job_logging again, which libraries change when they are imported."""
    for name, settings in HydraConfig.get().job_logging.get("loggers", {}).items():
        logging.getLogger(name).setLevel(settings.level)


@contextmanager
def _given_to_hydra(words: Sequence[str]) -> Iterator[Callable[[], None]]:
    """Lets Hydra read `words` as its command line and raise its errors instead of printing them.

    Yields what ends this state early: a training on several devices starts itself again by `sys.argv`.
    """
    arguments, full_error = sys.argv, os.environ.get(FULL_ERROR)

    def end() -> None:
        sys.argv = arguments
        os.environ.pop(FULL_ERROR, None)
        if full_error is not None:
            os.environ[FULL_ERROR] = full_error

    sys.argv = ["foretune", *words]  # the name that shells complete
    os.environ[FULL_ERROR] = "1"
    try:
        yield end
    finally:
        end()


def _refuse_dashes(words: Sequence[str]) -> None:
    for word in words:
        name = word.removeprefix("--").partition("=")[0]
        if word.startswith("--") and not any(flag.startswith(name) for flag in FLAGS):
            option = name.replace("-", "_")
            raise ConfigError(f"{word}: options are written without dashes, as in {option}=VALUE")


def _in_one_line(error: Exception) -> str:
    """Message for the user from an error of Hydra's."""
    if isinstance(error, OverrideParseException):
        # A line before it may name the override, those after it link to Hydra's documentation.
        reason = next(line for line in error.message.splitlines() if not line.startswith("Error parsing"))
        return f"{error.override}: {reason}; options are written NAME=VALUE, special characters in quotes"
    if isinstance(error, MissingConfigException) and error.options is not None:
        group, _, preset = str(error.missing_cfg_file).rpartition("/")
        return f"{group}={preset} is unknown: choose one of {', '.join(error.options)}"
    if not_there := re.match(r"Could not override '([^']*)'", str(error)):
        key = getattr(error.__cause__, "full_key", None) or not_there[1]
        return str(unknown_option(key, getattr(error.__cause__, "parent_node", None) or ()))
    return " ".join(f"{error} {error.__cause__ or ''}".split())
