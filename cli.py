"""The command `foretune`: finds the sub-command and imports only the modules that it needs."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from . import __version__
from .errors import UserError, exits_cleanly

if TYPE_CHECKING:
    from omegaconf import DictConfig

PROGRAM = "foretune"


class CommandError(UserError, ValueError):
    """The sub-command does not exist."""


@dataclass(frozen=True)
class Command:
    """A sub-command: `function` of `module` takes the settings that its file in conf/ composes.

    Leading words without "=" are values of the option `positional`: of a list with `several`.
    """

    summary: str
    module: str
    function: str = "main"
    positional: str | None = None
    several: bool = False


@dataclass(frozen=True)
class Group:
    """A word that sub-commands follow; `{name}` in its help `overview` is the line of a sub-command."""

    summary: str
    commands: Mapping[str, Command | Group]
    overview: str


DATASET = Group(
    "inspect, verify, merge, import or export datasets; describe devices",
    {
        "inspect": Command("summarise a dataset", "dataset.cli", "inspect", "dataset"),
        "verify": Command("check every record of a dataset", "dataset.cli", "verify", "dataset"),
        "merge": Command("add datasets to another one", "dataset.cli", "merge", "dataset", several=True),
        "import": Command("add a MetaSchedule database", "dataset.cli", "import_", "database"),
        "export": Command("write MetaSchedule databases", "dataset.cli", "export", "dataset"),
        "datasheet": Command("describe a dataset, with plots", "dataset.cli", "datasheet", "dataset"),
        "hardware": Command("print the description of a device", "dataset.cli", "hardware", "name"),
    },
    """\
foretune dataset inspects, checks, merges and exchanges datasets, and describes devices.

{inspect}
{verify}
{merge}
{import}
{export}
{datasheet}
{hardware}

  foretune dataset inspect data/mine
  foretune dataset merge data/mine data/other into=data/both

`foretune dataset COMMAND --help` shows the options of one.
""",
)

CHECKPOINTS = Group(
    "list, show or verify checkpoints",
    {
        "list": Command("list checkpoints with their metrics", "models.cli", "list_", "folder"),
        "show": Command("print the card of a checkpoint", "models.cli", "show", "checkpoint"),
        "verify": Command("check checkpoints", "models.cli", "verify", "checkpoints", several=True),
    },
    """\
foretune checkpoints lists checkpoints, prints their cards, and checks them for damage.

{list}
{show}
{verify}

  foretune checkpoints show cpu
  foretune checkpoints list outputs/train

`foretune checkpoints COMMAND --help` shows the options of one.
""",
)

BUNDLE = Group(
    "export, import or show tuned schedules as one file",
    {
        "export": Command("write schedules of a tuning database", "inference.bundle.cli", "export", "bundle"),
        "import": Command("add a bundle to a tuning database", "inference.bundle.cli", "import_", "bundle"),
        "show": Command("print the contents of a bundle", "inference.bundle.cli", "show", "bundle"),
    },
    """\
foretune bundle moves tuned schedules to other machines. A machine of the same kind has nothing left to
measure; on other machines the searches start from these schedules.

{export}
{import}
{show}

  foretune bundle export resnet18.zip network=resnet18
  foretune bundle import resnet18.zip

`foretune bundle COMMAND --help` shows the options of one.
""",
)

FORETUNE = Group(
    "",
    {
        "generate": Command("measure programs of sampled tasks and store the records", "dataset.generate"),
        "propose": Command("search with a model for programs to measure next", "inference.propose"),
        "dataset": DATASET,
        "train": Command("train a cost model on a dataset", "training.train"),
        "combine": Command("make one ensemble of several checkpoints", "training.combine"),
        "evaluate": Command("test a checkpoint on a dataset", "training.evaluate"),
        "compare": Command("train several models on one split and compare them", "training.compare"),
        "finetune": Command("move a checkpoint to a new device", "training.finetune"),
        "reinforce": Command(
            "teach an explorer to search, with a cost model as its judge", "training.exploration.train"
        ),
        "checkpoints": CHECKPOINTS,
        "pretune": Command(
            *("keep the fastest programs of datasets as starts", "inference.pretune"),
            positional="dataset",
            several=True,
        ),
        "advise": Command("suggest cheap changes to a network", "inference.advise"),
        "inspect": Command("show tasks, schedules and expected minutes of a network", "inference.inspect"),
        "tune": Command("tune a network, then compile, check and time it", "inference.tune"),
        "bundle": BUNDLE,
    },
    """\
Foretune tunes tensor programs with a pretrained cost model.

Generate a dataset on your machine:   foretune generate dataset=data/mine tasks=200

{generate}
{propose}
{dataset}

Train a cost model on it:             foretune train dataset=data/mine

{train}
{combine}
{evaluate}
{compare}
{finetune}
{reinforce}
{checkpoints}

Tune a network with a cost model:     foretune tune network=resnet18

{pretune}
{advise}
{inspect}
{tune}
{bundle}

`foretune COMMAND --help` shows the options of one, `foretune --version` the version. For tab completion:
  eval "$(foretune -sc install=bash)"      in bash; in zsh, after `autoload -Uz bashcompinit; bashcompinit`
  foretune -sc install=fish | source       in fish
""",
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry of the command; exits with 1 for a finding, 2 for an error, 130 after Ctrl-C."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    with exits_cleanly():
        if words[:1] == ["--version"]:
            print(f"{PROGRAM} {__version__}")
        elif words[:1] in (["-sc"], ["--shell-completion"]):
            _complete(words)
        else:
            _dispatch(FORETUNE, [], words)


def _dispatch(group: Group, names: list[str], words: Sequence[str]) -> None:
    """Runs the command of `group` that the words begin with; `names` led to the group."""
    if not words or words[0] in ("--help", "-h"):
        lines = {name: f"  {name:12} {found.summary}" for name, found in group.commands.items()}
        print(group.overview.format(**lines), end="")
        return
    name, *options = words
    found = group.commands.get(name)
    if found is None:
        raise CommandError(_unknown(name, [PROGRAM, *names], group.commands))
    if isinstance(found, Group):
        _dispatch(found, [*names, name], options)
    else:
        _run([*names, name], found, options)


def _unknown(name: str, program: Iterable[str], known: Iterable[str]) -> str:
    similar = get_close_matches(name, known, n=1)
    hint = f"did you mean {similar[0]}?" if similar else f"choose one of {', '.join(known)};"
    return f"{name!r} is no command of {' '.join(program)}: {hint} --help describes them"


def _run(names: list[str], command: Command, words: Sequence[str]) -> None:
    from .hydra_command import restore_log_levels, run_command

    def job(config: DictConfig) -> int | None:
        # Only here, so that neither --help nor a wrong option waits for TVM or torch.
        with _without_collections():
            module: Any = import_module(f".{command.module}", __package__)
        restore_log_levels()
        status: int | None = getattr(module, command.function)(config)
        return status

    run_command("_".join(names), job, _with_option_names(command, words))


@contextmanager
def _without_collections() -> Iterator[None]:
    """Disables garbage collection inside the block and freezes the objects that it created.

    Imports create a million objects and no garbage; collections would take a sixth of the time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _with_option_names(command: Command, words: Sequence[str]) -> list[str]:
    """The words with positional values written as an override."""
    given = list(takewhile(lambda word: "=" not in word and word[:1] not in ("-", "~"), words))
    if command.positional is None or not given:
        return list(words)
    if not command.several:
        given = given[:1]
    # Quoted, as paths may hold characters that mean something to Hydra.
    values = ",".join("'" + word.replace("'", r"\'") + "'" for word in given)
    override = f"{command.positional}=[{values}]" if command.several else f"{command.positional}={values}"
    return [override, *words[len(given) :]]


def _complete(words: list[str]) -> None:
    """Answers the completion scripts of Hydra, which know of a program's options but of no sub-commands."""
    from .hydra_command import run_command

    found: Command | Group = FORETUNE
    names: list[str] = []
    if any(word.startswith("query=") for word in words):
        line = os.environ.get("COMP_LINE", "")
        typed = line.split()[1:]
        finished = typed if line.endswith(" ") else typed[:-1]
        for word in finished:
            if isinstance(found, Command):
                break
            if word not in found.commands:
                return
            found = found.commands[word]
            names.append(word)
        if isinstance(found, Group):
            print("\n".join(found.commands))
            return
        rest = " ".join(typed[len(names) :])
        os.environ["COMP_LINE"] = f"{PROGRAM} {rest}{' ' if rest and line.endswith(' ') else ''}"
    run_command("_".join(names) or "tune", lambda _: None, words)
