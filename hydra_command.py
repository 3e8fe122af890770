"""Runs one command under Hydra, which composes its settings, and reports a wrong setting in one line."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import hydra
import yaml
from hydra import compose, initialize_config_module
from hydra._internal.hydra import Hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from . import option_help
from .command_words import FURTHER, checked_flags, with_quotes
from .configuration import ConfigError, unknown_option
from .errors import FULL_ERROR, UserError, exits_cleanly, shows_tracebacks
from .files import disk_errors
from .suggestions import option_names
from .sweep import RunOutcome, Sweep, check_runs

Job = Callable[[DictConfig], "int | RunOutcome | None"]
"""Takes composed settings and returns the exit status, None for 0, or what a sweep compares."""

_CONF = "foretune.conf"


def run_command(
    config_name: str, job: Job, words: Sequence[str], check: Callable[[DictConfig], None] | None = None
) -> None:
    """Composes conf/`config_name`.yaml with the overrides among `words`, and calls `job` with the result.

    Hydra's flags, such as --cfg and --multirun, work as in any application of Hydra; Foretune itself prints
    --help and --help-all. Several runs start after `check` has accepted the settings of each, and end with a
    table.

    Raises:
      ConfigError: an option is unknown or cannot be read.
      SystemExit: `job` returned a status other than 0 or raised UserError.
    """
    words, flags = checked_flags(words, lambda: known_options(config_name))
    words = with_quotes(words, config_name, multirun=flags.multirun)
    full_error = shows_tracebacks()
    sweep = Sweep()
    with _given_to_hydra(words) as composed:

        @exits_cleanly()
        @disk_errors(Path.cwd())
        def task(config: DictConfig) -> None:
            composed()
            if not flags.multirun:
                found = job(config)
                if status := found.status if isinstance(found, RunOutcome) else found:
                    raise SystemExit(status)
                return
            with sweep.run() as run, exits_cleanly(), disk_errors(Path.cwd()):
                found = job(config)
                run.outcome = found if isinstance(found, RunOutcome) else None
                if status := found.status if isinstance(found, RunOutcome) else found:
                    raise SystemExit(status)

        main = hydra.main(version_base="1.3", config_path=f"pkg://{_CONF}", config_name=config_name)
        try:
            if flags.help:
                main(exits_cleanly()(partial(_print_help, everything=flags.help_all)))()
                return
            if flags.multirun and check is not None:
                check_runs(config_name, words, check)
            with disk_errors(Path.cwd()):  # Hydra writes the settings into the run's folder
                main(task)()
        except (UserError, BrokenPipeError):  # the reader of Hydra's own output may go away
            raise
        except (HydraException, OmegaConfBaseException, OSError) as error:
            if full_error:
                raise
            raise ConfigError(_in_one_line(error, config_name)) from error
        finally:
            if sweep.runs:
                sweep.print()
    if sweep.status:
        raise SystemExit(sweep.status)


def _print_help(config: DictConfig, *, everything: bool) -> None:
    """Job that prints the help of a command. Hydra's --help lists all presets twice, which takes seconds."""
    with open_dict(config):
        config.hydra = HydraConfig.get()
    print(option_help.text(config, everything=everything), flush=True)


def restore_log_levels() -> None:
    """Sets the levels of conf/hydra/job_logging again, which libraries change when they are imported."""
    if HydraConfig.initialized():
        for name, settings in HydraConfig.get().job_logging.get("loggers", {}).items():
            logging.getLogger(name).setLevel(settings.level)


def known_options(config_name: str) -> list[str]:
    """Names of all options of a command: dotted, or with slashes if they select presets."""
    with initialize_config_module(_CONF, version_base="1.3"):
        config = compose(config_name, return_hydra_config=True)
        groups = [group for group in config.hydra.runtime.choices if not group.startswith("hydra")]
        values = OmegaConf.to_container(config, resolve=False)
        assert isinstance(values, dict)
        del values["hydra"]
        names = [*groups, *option_names(values)]
        for name, (of, part) in FURTHER.get(config_name, {}).items():
            further: Any = OmegaConf.to_container(compose(of), resolve=False)
            names += [f"{name}.{option}" for option in option_names(further[part] if part else further)]
    return names


@contextmanager
def _given_to_hydra(words: Sequence[str]) -> Iterator[Callable[[], None]]:
    """Lets Hydra read `words` as its command line and raise its errors instead of printing them.

    It takes a third of its time in this state. It reads YAML by libyaml, where PyYAML has it, and it composes
    the settings once: unless told a mode, it would first compose them to see whether they name one.

    Yields what ends this state early: a training on several devices starts itself again by `sys.argv`.
    """
    arguments, full_error = sys.argv, os.environ.get(FULL_ERROR)
    loader, mode = yaml.SafeLoader, Hydra.get_mode

    def end() -> None:
        sys.argv = arguments
        yaml.SafeLoader, Hydra.get_mode = loader, mode  # type: ignore[method-assign]
        os.environ.pop(FULL_ERROR, None)
        if full_error is not None:
            os.environ[FULL_ERROR] = full_error

    sys.argv = ["foretune", *words]  # the name that shells complete
    os.environ[FULL_ERROR] = "1"
    yaml.SafeLoader = getattr(yaml, "CSafeLoader", loader)
    if not any("hydra.mode" in word for word in words):
        Hydra.get_mode = lambda *_, **__: None  # type: ignore[method-assign]
    try:
        yield end
    finally:
        end()


def _in_one_line(error: Exception, config_name: str) -> str:
    """Message for the user from an error of Hydra's."""
    if isinstance(error, OverrideParseException):
        # A line before it may name the override, those after it link to Hydra's documentation.
        reason = next(line for line in error.message.splitlines() if not line.startswith("Error parsing"))
        return f"{error.override}: {reason}; options are written NAME=VALUE, special characters in quotes"
    if isinstance(error, MissingConfigException) and error.options is not None:
        group, _, preset = str(error.missing_cfg_file).rpartition("/")
        similar = get_close_matches(preset, error.options, n=1, cutoff=0.7)
        hint = f"did you mean {group}={similar[0]}? " if similar else ""
        return f"{group}={preset} is unknown: {hint}choose one of {', '.join(error.options)}"
    if not_there := re.match(r"Could not override '([^']*)'", str(error)):
        return str(unknown_option(not_there[1], known_options(config_name)))
    return " ".join(f"{error} {error.__cause__ or ''}".split())
