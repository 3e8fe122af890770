"""Words of a command line, made ready for Hydra's grammar."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path
from typing import NamedTuple

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from .configuration import ConfigError
from .suggestions import similar_option

HELP_ALL = "help-all"

FLAGS = (
    *("help", "hydra-help", "version", "cfg", "resolve", "package", "run", "multirun", "shell-completion"),
    *("config-path", "config-name", "config-dir", "experimental-rerun", "info"),
)
"""Hydra's long flags."""

SHORT_FLAGS = ("h", "c", "p", "r", "m", "sc", "cp", "cn", "cd", "i")
"""Hydra's short flags."""

FURTHER = {
    "compare": {"train": ("train", "")},
    "finetune": {"data": ("train", "data"), "loss": ("train", "loss")},
}
"""Options of a command that hold options of another one: its configuration, and the part of it."""


FREE = dict.fromkeys(("tune", "inspect", "advise"), ("dims.",))
"""Beginnings of options of a command whose names the user chooses."""


class Flags(NamedTuple):
    """Flags of a command line that Foretune reads itself."""

    help: bool
    """Whether to print the help instead of running."""
    help_all: bool
    """Whether the help has all options."""
    multirun: bool


def checked_flags(words: Sequence[str], known: Callable[[], Iterable[str]]) -> tuple[list[str], Flags]:
    """The words for Hydra, and the flags that Foretune reads; `known` lists the options of the command.

    Raises ConfigError for a word that starts like a flag and is none.
    """
    help_all = f"--{HELP_ALL}" in words
    kept = [word for word in words if word not in ("-h", f"--{HELP_ALL}") and not _means(word, "help")]
    asked = len(kept) < len(words)
    for number, word in enumerate(kept):
        name, equals, value = word.lstrip("-").partition("=")
        dashes = len(word) - len(word.lstrip("-"))
        is_flag = any(flag.startswith(name) for flag in FLAGS) if dashes == 2 else name in SHORT_FLAGS
        if dashes and not is_flag:
            following = [*kept[number + 1 : number + 2], ""][0]
            value = value if equals or "=" in following or following.startswith("-") else following
            raise ConfigError(_no_flag(word, name, value, known()))
    flags = Flags(asked, help_all, any(word == "-m" or _means(word, "multirun") for word in kept))
    if asked:
        kept = [word for word in kept if word != "-m" and not _means(word, "multirun")]
    return kept, flags


def _means(word: str, flag: str) -> bool:
    """Whether a word is a long flag, perhaps shortened."""
    return len(word) > 3 and f"--{flag}".startswith(word)


def _no_flag(word: str, name: str, value: str, known: Iterable[str]) -> str:
    flag = get_close_matches(name, (*FLAGS, HELP_ALL), n=1, cutoff=0.7)
    option = similar_option(name, known)
    if flag and (option is None or _likeness(flag[0], name) > _likeness(option, name)):
        return f"{word} is no flag: did you mean --{flag[0]}?"
    option = option or name.replace("-", "_")
    return f"{word}: options are written without dashes, as in {option}={value or 'VALUE'}"


def _likeness(name: str, typed: str) -> float:
    return SequenceMatcher(None, name.replace("_", "-"), typed.replace("_", "-")).ratio()


def with_quotes(words: Sequence[str], config_name: str = "", *, multirun: bool = False) -> list[str]:
    """The words, with what Hydra's grammar demands of a user and Foretune can add itself.

    Values that Hydra could not read, such as names of files with letters outside of ASCII, get quotes. The
    grammar reads a comma as a list of values; a value that names an existing file is no list. Options of
    another command, as in train.trainer.max_epochs=3 of a comparison, get the plus signs that add them. So do
    options whose names the user chooses.
    """
    parser = OverridesParser.create()
    further = (*(f"{name}." for name in FURTHER.get(config_name, ())), *FREE.get(config_name, ()))
    added = [f"++{word}" if further and word.startswith(further) else word for word in words]
    return [_quoted(word, parser, multirun) for word in added]


def _quoted(word: str, parser: OverridesParser, multirun: bool) -> str:
    name, equals, value = word.partition("=")
    if not equals or word.startswith("-") or not value or value[0] in "\"'":
        return word
    parsed = _parsed(word, parser)
    if parsed is not None and (multirun or not parsed.is_sweep_override() or not _exists(value)):
        return word
    if value[0] == "{":
        return word
    if multirun and "," in value and not _exists(value) and value[0] != "[":
        return f"{name}={','.join(_elements(value, parser))}"
    if value[0] == "[" and value[-1] == "]" and not set(value[1:-1]) & set("[]{}\"'"):
        return f"{name}=[{','.join(_elements(value[1:-1], parser))}]"
    if value[0] == "[":
        return f"{name}={_SYMBOL.sub(lambda found: quoted(found[0]), value)}"
    return f"{name}={quoted(value)}"


_SYMBOL = re.compile(r"(?<=[\[,])[A-Za-z_]\w*=-?\d+:-?\d+(?=[],])")
"""Extent with a range inside of lists, whose quotes the shell took."""


def _elements(values: str, parser: OverridesParser) -> Iterator[str]:
    for value in values.split(","):
        yield value if _parsed(f"a={value}", parser) is not None else quoted(value.strip())


def quoted(value: str) -> str:
    """The value between quotes that Hydra reads as they stand."""
    # Hydra reads backslashes as escapes only in front of a quote.
    text = re.sub(r"(\\*)'", lambda found: f"{2 * found[1]}\\'", value)
    return "'" + re.sub(r"\\+$", lambda found: 2 * found[0], text) + "'"


def _parsed(word: str, parser: OverridesParser) -> Override | None:
    try:
        return parser.parse_override(word)
    except HydraException:
        return None


def _exists(value: str) -> bool:
    try:
        return Path(value).exists()
    except (OSError, ValueError):
        return False
