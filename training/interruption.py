"""Interruption of a training: how far it came, and the command that continues it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from hydra.core.hydra_config import HydraConfig

from ..signals import Interrupted, as_interrupted
from ..terminal import short_path
from ..wording import shell_command
from .fitting.fit import LAST

_OF_FOLDER = ("resume=", "hydra.run.dir=", "hydra.mode=", "hydra.sweep.")
"""Beginnings of overrides that the continuing command has with other values, or not at all."""


@contextmanager
def tells_how_to_continue(run_dir: Path, *, resume: bool = True) -> Iterator[None]:
    """Gives an interruption of the block the command that continues with what `run_dir` keeps.

    `resume` is whether the command continues only if it is told to, by its option of this name.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        number = as_interrupted(error).number
        raise Interrupted(number, _message(run_dir, resume=resume)) from error


def _message(run_dir: Path, *, resume: bool) -> str:
    kept = sorted(run_dir.rglob(str(LAST)), key=lambda path: path.stat().st_mtime)
    if not HydraConfig.initialized():
        return f"interrupted; what is kept is in {short_path(run_dir)}"
    if not kept:
        again = continuing_command(run_dir, resume=False)
        return f"interrupted before the end of the first epoch; to start again: {again}"
    last = kept[-1]
    epoch = int(torch.load(last, map_location="cpu", weights_only=True)["epoch"]) + 1
    of_part = "" if last.parent == run_dir else f" of {last.parent.relative_to(run_dir)}"
    again = continuing_command(run_dir, resume=resume)
    return f"interrupted after epoch {epoch}{of_part}; to continue: {again}"


def continuing_command(run_dir: Path, *, resume: bool) -> str:
    """The command of this run, for a shell, that continues in `run_dir`."""
    hydra = HydraConfig.get()
    given = [*hydra.overrides.task, *hydra.overrides.hydra]
    words = [word for word in given if not word.lstrip("+").startswith(_OF_FOLDER)]
    if resume:
        words.append("resume=true")
    if not any(word.startswith("run_dir=") for word in words):
        words.append(f"hydra.run.dir={short_path(run_dir)}")
    return shell_command("foretune", hydra.job.name, *words)
