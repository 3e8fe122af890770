"""The sub-commands of `foretune`, and the overviews that --help prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """A sub-command: calls `function` of `module` with the settings that its file in conf/ composes.

    Leading words without "=" are values of the option `positional`, which is a list if `several` is true.
    `ahead` is a module whose `start` gets the settings before `module` is imported.
    """

    summary: str
    module: str
    function: str = "main"
    positional: str | None = None
    several: bool = False
    ahead: str = ""


@dataclass(frozen=True)
class Group:
    """A group of sub-commands; in `overview`, its help, `{name}` stands for the line of a sub-command."""

    summary: str
    commands: Mapping[str, Command | Group]
    overview: str


DATASET = Group(
    "inspect, verify, merge, import or export datasets; describe devices",
    {
        "inspect": Command("count tasks, records and failures", "dataset.cli", "inspect", "dataset"),
        "verify": Command("check every record of a dataset", "dataset.cli", "verify", "dataset"),
        "merge": Command("add datasets to another dataset", "dataset.cli", "merge", "dataset", several=True),
        "import": Command("add a MetaSchedule database to a dataset", "dataset.cli", "import_", "database"),
        "export": Command("write a dataset as MetaSchedule databases", "dataset.cli", "export", "dataset"),
        "datasheet": Command("write a description with plots", "dataset.cli", "datasheet", "dataset"),
        "hardware": Command("print the description of a device", "dataset.cli", "hardware", "name"),
    },
    """\
foretune dataset inspects, verifies, merges, imports and exports datasets, and describes devices.

{inspect}
{verify}
{merge}
{import}
{export}
{datasheet}
{hardware}

  foretune dataset inspect data/mine
  foretune dataset merge data/mine data/other into=data/both

`foretune dataset COMMAND --help` shows the options of a command.
""",
)

CHECKPOINTS = Group(
    "list, show or verify checkpoints",
    {
        "list": Command("list checkpoints with their metrics", "models.cli", "list_", "folder"),
        "show": Command("print the card of a checkpoint", "models.cli", "show", "checkpoint"),
        "verify": Command("check checkpoints", "models.cli", "verify", "checkpoint", several=True),
    },
    """\
foretune checkpoints lists checkpoints, prints their cards, and verifies them.

{list}
{show}
{verify}

  foretune checkpoints show cpu
  foretune checkpoints list outputs/train

`foretune checkpoints COMMAND --help` shows the options of a command.
""",
)

BUNDLE = Group(
    "export, import or show tuned schedules as one file",
    {
        "export": Command("write schedules to a file", "inference.bundle.cli", "export", "bundle"),
        "import": Command("add a bundle to a tuning database", "inference.bundle.cli", "import_", "bundle"),
        "show": Command("print the contents of a bundle", "inference.bundle.cli", "show", "bundle"),
    },
    """\
foretune bundle copies tuned schedules to other machines. A machine of the same kind uses them without
measurements; other machines start their searches from them.

{export}
{import}
{show}

  foretune bundle export resnet18.zip network=resnet18
  foretune bundle import resnet18.zip

`foretune bundle COMMAND --help` shows the options of a command.
""",
)

FORETUNE = Group(
    "",
    {
        "generate": Command("measure programs of sampled tasks and store the records", "dataset.generate"),
        "propose": Command("search for programs to measure next, with a cost model", "inference.propose"),
        "dataset": DATASET,
        "train": Command("train a cost model on a dataset", "training.train"),
        "combine": Command("combine several checkpoints into an ensemble", "training.combine"),
        "evaluate": Command("test a checkpoint on a dataset", "training.evaluate"),
        "compare": Command("train several models on the same split and compare them", "training.compare"),
        "finetune": Command("adapt a checkpoint to a new device", "training.finetune"),
        "reinforce": Command(
            "train an explorer that searches with a deep Q-network", "training.exploration.train"
        ),
        "checkpoints": CHECKPOINTS,
        "pretune": Command(
            *("write the fastest programs of datasets as start candidates", "inference.pretune"),
            positional="dataset",
            several=True,
        ),
        "advise": Command("measure cheap changes to the design of a network", "inference.advise"),
        "inspect": Command("show the tasks and the expected tuning time", "inference.inspect"),
        "tune": Command(
            *("tune a network, then compile, check and time it", "inference.tune"),
            ahead="inference.workers.ahead",
        ),
        "bundle": BUNDLE,
        "serve": Command(
            "keep the imports in memory, so that other commands start at once", "inference.serve"
        ),
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

Start these commands faster:          foretune serve

{serve}

`foretune help COMMAND` shows the options of a command that people use, `foretune COMMAND --help-all` all of
them, and `foretune version` the version. Tab completion of options, networks, checkpoints and folders:
  eval "$(foretune -sc install=bash)"      in bash; in zsh, after `autoload -Uz bashcompinit; bashcompinit`
  foretune -sc install=fish | source       in fish
""",
)
