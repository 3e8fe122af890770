"""Tab completion: commands, options, presets, and the values of options."""

from __future__ import annotations

import ast
import os
import shlex
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from .commands import Command, Group
from .hydra_command import known_options, run_command

NETWORKS = {"network", "networks"}
"""Options whose values are networks."""

CHECKPOINTS = {"checkpoint", "start_from", "environment", "models", "scorer", "split.checkpoint"}
"""Options whose values are checkpoints; so are those that end in .checkpoint."""

PATHS = {
    *("dataset", "test_dataset", "tasks_from", "tasks_into", "unlike", "label_noise", "leave_out"),
    *("database", "output", "export", "into", "folder", "bundle", "calibration", "file", "weights", "beside"),
    *("run_dir", "fits_dir", "checkpoint_dir", "dir", "hardware"),
}
"""Last words of options whose values are files or folders."""


def complete(words: list[str], commands: Group) -> None:
    """Answers Hydra's completion scripts, which know the options of a program but not its sub-commands.

    Prints one proposal a line; the shell keeps those that fit.
    """
    found: Command | Group = commands
    names: list[str] = []
    if any(word.startswith("query=") for word in words):
        line = os.environ.get("COMP_LINE", "")
        typed = _typed(line)
        for word in typed[1:-1]:
            if isinstance(found, Command):
                break
            if word not in found.commands:
                return
            found = found.commands[word]
            names.append(word)
        if isinstance(found, Group):
            print("\n".join(found.commands))
            return
        last = typed[-1]
        values = proposals(last, found, "_".join(names))
        if values is not None:
            print("\n".join(values))
            return
        rest = " ".join(typed[len(names) + 1 :])
        os.environ["COMP_LINE"] = f"foretune {rest}"
    run_command("_".join(names) or "tune", lambda _: None, words)


def _typed(line: str) -> list[str]:
    """Words of a command line, the last of which is being typed and may be empty."""
    try:
        words = shlex.split(line)
    except ValueError:  # a quote is still open
        words = line.split()
    return [*words, ""] if line.endswith(" ") and not line.endswith("\\ ") else words


def proposals(word: str, command: Command, config_name: str) -> list[str] | None:
    """Words that may stand in place of `word`; None leaves the answer to Hydra."""
    option, equals, value = word.partition("=")
    if not equals:
        if command.positional is not None and not word.startswith("-"):
            option, value = command.positional, word
        else:
            return None
    start, begun = "", value
    if value.startswith("["):  # a list: complete its last value
        head, comma, begun = value[1:].rpartition(",")
        start = f"[{head}{comma}"
    kind = option.lstrip("+").rpartition(".")[2]
    found: list[str] = []
    if kind in NETWORKS:
        found = [*known_networks(), *paths(begun)]
    elif kind in CHECKPOINTS:
        found = [*shipped(), *paths(begun)]
    elif kind in PATHS:
        found = [*paths(begun)]
    if not found:
        return None
    prefix = f"{option}={start}" if equals else start
    values = [f"{prefix}{one}" for one in found if one.startswith(begun)]
    if not equals and word == "":  # the options remain possible
        values += [f"{name}=" for name in known_options(config_name) if "." not in name]
    return values


def known_networks() -> list[str]:
    """Names of the networks that `network=` knows, without an import of torch."""
    source = files("foretune.compiler.networks").joinpath("known.py").read_text(encoding="utf-8")
    for node in ast.parse(source).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "ZOO":
            assert isinstance(node.value, ast.Dict)
            return [str(key.value) for key in node.value.keys if isinstance(key, ast.Constant)]
    return []


def shipped() -> list[str]:
    """Names of the shipped checkpoints."""
    folder = files("foretune.checkpoints")
    return sorted(each.name for each in folder.iterdir() if each.joinpath("card.json").is_file())


def paths(begun: str) -> Iterator[str]:
    """Files and folders whose path starts with `begun`; folders end in a slash."""
    folder, _, name = begun.rpartition("/")
    parent = Path(f"{folder}/" if folder or begun.startswith("/") else ".").expanduser()
    if not parent.is_dir():
        return
    for found in sorted(parent.iterdir()):
        if found.name.startswith(name) and (name.startswith(".") or not found.name.startswith(".")):
            path = f"{begun.removesuffix(name) if name else begun}{found.name}"
            yield f"{path}/" if found.is_dir() else path
