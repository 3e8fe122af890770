"""Text of --help and --help-all: the composed values, each with the comment that its YAML file has for it.

The sentences before and after the options are in conf/hydra/help and in the file of the command.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from textwrap import fill, indent, wrap
from typing import Any

import yaml
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from .wording import capitalised

_HYDRA = "hydra"

_COMMON = "Options of --help:"
"""Comment at the top of a command's file, before the names of its most used options and groups."""

_MOST_EXAMPLES = 6
_MEANING_AT = 26
"""Column in which the meanings of options start."""

_FOOTER = (
    "An option is set by its dotted name, as in seed=1 or search.top_k=64; options that show ??? must be "
    "set. --multirun runs every combination of a=1,2 b=3,4, and --cfg job prints the settings."
)


@dataclass
class FileComments:
    """Comments of a YAML file: `head` before a blank line at its top, the others by dotted option names."""

    head: list[str] = field(default_factory=list)
    above: dict[str, list[str]] = field(default_factory=dict)
    beside: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str) -> FileComments:
        """The comments of a file's text."""
        lines = text.splitlines()
        comments = cls()
        for line in lines:
            if not line.startswith("#"):
                # Without a blank line in between, they belong to the first option.
                comments.head = comments.head if not line.strip() else []
                break
            if not line.startswith("# @package"):
                comments.head.append(_comment(line))
        root = yaml.compose(text, yaml.SafeLoader)  # see hydra_command for its speed
        if isinstance(root, yaml.MappingNode):
            comments._read(root, lines, "")
        return comments

    def _read(self, node: yaml.MappingNode, lines: list[str], parent: str) -> None:
        for key, value in node.value:
            name = f"{parent}{key.value}"
            first = start = key.start_mark.line
            while first and lines[first - 1].lstrip().startswith("#"):
                first -= 1
            self.above[name] = [_comment(line) for line in lines[first:start]]
            nested = isinstance(value, yaml.CollectionNode) and not value.flow_style
            end = key.end_mark if nested else value.end_mark
            if end.line < len(lines):
                self.beside[name] = lines[end.line][end.column :].partition("#")[2].strip()
            if isinstance(value, yaml.MappingNode):
                self._read(value, lines, f"{name}.")


def _comment(line: str) -> str:
    return line.strip().removeprefix("#").removeprefix(" ")


@dataclass
class Comments:
    """Comments of all files that a configuration was composed of, by dotted option names."""

    above: dict[str, list[str]] = field(default_factory=dict)
    beside: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, config: DictConfig) -> Comments:
        """Reads the files; where several comment on an option, the last one counts, as for its value."""
        loader, overrides = _loader(), config.hydra.overrides
        composed = loader.compute_defaults_list(
            config.hydra.job.config_name, [*overrides.hydra, *overrides.task], RunMode.RUN
        )
        comments = cls()
        for default in composed.defaults:
            package = default.package or ""
            if default.config_path is None or package.partition(".")[0] == _HYDRA:
                continue
            found = FileComments.of(_text(loader, default.config_path))
            prefix = f"{package}." if package not in ("", "_global_") else ""
            if prefix and found.head:
                comments.above[package] = found.head
            comments.above |= {prefix + name: lines for name, lines in found.above.items() if lines}
            comments.beside |= {prefix + name: text for name, text in found.beside.items() if text}
        return comments


def options_text(config: DictConfig) -> str:
    """The options of a command as YAML with comments, those of its groups last."""
    values = _values(config)
    groups = {group.partition("/")[0] for group in _groups(config)}
    own_first = sorted(values, key=lambda name: name in groups)
    return "\n".join(_lines({name: values[name] for name in own_first}, Comments.of(config), ""))


def _values(config: DictConfig) -> dict[Any, Any]:
    values = OmegaConf.to_container(config, resolve=False)
    assert isinstance(values, dict)
    del values[_HYDRA]
    return values


def _groups(config: DictConfig) -> dict[str, str]:
    """The chosen preset of each group of a command."""
    choices = config.hydra.runtime.choices
    return {group: preset for group, preset in choices.items() if group.partition("/")[0] != _HYDRA}


def _lines(values: dict[Any, Any], comments: Comments, parent: str) -> Iterator[str]:
    margin = "  " * parent.count(".")
    for key, value in values.items():
        name = f"{parent}{key}"
        yield from (f"{margin}# {line}".rstrip() for line in comments.above.get(name, ()))
        nested = isinstance(value, dict) and value
        line = f"{margin}{key}:" if nested else f"{margin}{key}: {_value(value)}"
        beside = comments.beside.get(name)
        yield f"{line} # {beside}" if beside else line
        if nested:
            yield from _lines(value, comments, f"{name}.")


def _value(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=float("inf"))
    return text.removesuffix("\n").removesuffix("\n...")


def presets_text(config: DictConfig) -> str:
    """The groups of a command with their presets, each with the first sentence of its file."""
    loader = _loader()
    groups = []
    for group, chosen in _groups(config).items():
        presets = loader.get_group_options(group, ObjectType.CONFIG)
        if len(presets) < 2:
            continue
        width = max(map(len, presets))
        lines = []
        for preset in presets:
            meaning = first_sentence(FileComments.of(_text(loader, f"{group}/{preset}")).head)
            lines.append(f"{'*' if preset == chosen else ' '} {preset:{width}}  {meaning}".rstrip())
        groups.append(f"{group}\n{indent(chr(10).join(lines), '  ')}")
    if not groups:
        return ""
    return "\n".join(["Presets, as in GROUP=PRESET (* is chosen):\n", *groups, ""])


def first_sentence(lines: Sequence[str]) -> str:
    """The first sentence of a comment, with a capital letter and a full stop."""
    sentence = re.split(r"(?<=[^.][.])\s", " ".join(" ".join(lines).split()), maxsplit=1)[0]
    return capitalised(sentence.rstrip(".")) + "." if sentence else ""


def short_text(config: DictConfig) -> str:
    """Help of a command on one page: what it does, examples, and its most used options."""
    width = min(max(shutil.get_terminal_size().columns, 60), 100)
    prose, examples = _split_header(config.hydra.help.header)
    options = _common(config)
    hidden = len(leaves(_values(config))) - len(options)
    parts = [fill(prose, width), "", *examples[:_MOST_EXAMPLES], "", "Options and their values:", ""]
    for name, (value, meaning) in options.items():
        parts += _entry(f"{name}={value}", meaning, width)
    more = "--help-all shows all options and presets" if hidden > 0 or _has_presets(config) else ""
    if more:
        parts += ["", fill(f"{more}. {_FOOTER}", width)]
    return "\n".join(parts)


def leaves(values: Any, parent: str = "") -> list[str]:
    """Dotted names of the options that have no options of their own."""
    if not isinstance(values, dict) or not values:
        return [parent.removesuffix(".")]
    return [name for key, value in values.items() for name in leaves(value, f"{parent}{key}.")]


def _has_presets(config: DictConfig) -> bool:
    return any(len(_loader().get_group_options(group, ObjectType.CONFIG)) > 1 for group in _groups(config))


def _common(config: DictConfig) -> dict[str, tuple[str, str]]:
    """Value and meaning of the options that the file of a command lists, or of all without a list."""
    head = " ".join(FileComments.of(_text(_loader(), config.hydra.job.config_name)).head)
    comments, values, groups = Comments.of(config), _values(config), _groups(config)
    listed = head.partition(_COMMON)[2].split()
    found = {}
    for name in listed or leaves(values):
        if name in groups:
            presets = _loader().get_group_options(name, ObjectType.CONFIG)
            found[name] = groups[name], f"Presets: {', '.join(presets)}."
            continue
        value: Any = values
        for part in name.split("."):
            value = value[part]
        beside = comments.beside.get(name)
        text = first_sentence([beside] if beside else comments.above.get(name, []))
        found[name] = _value(value).replace(", ", ","), text
    return found


def _entry(option: str, meaning: str, width: int) -> list[str]:
    """An option with its meaning next to it, or below it if it is long."""
    first, *rest = wrap(meaning, width - _MEANING_AT, break_on_hyphens=False) or [""]
    margin = " " * _MEANING_AT
    lines = [f"  {option}", f"{margin}{first}"]
    if len(option) + 3 < _MEANING_AT:
        lines = [f"  {option}".ljust(_MEANING_AT) + first]
    return [*lines, *(f"{margin}{line}" for line in rest)]


def _split_header(header: str) -> tuple[str, list[str]]:
    """The sentences of a header, and the lines of its examples."""
    lines = header.splitlines()
    first = next((number for number, line in enumerate(lines) if line.startswith("  ")), len(lines))
    return " ".join(line for line in lines[:first] if line), lines[first:]


def _loader() -> ConfigLoader:
    return GlobalHydra.instance().config_loader()


def _text(loader: ConfigLoader, config: str) -> str:
    """The text of a configuration file; empty for one that is not of a package or a folder."""
    for source in loader.get_sources():
        if source.is_config(config):
            if source.scheme() == "pkg":
                return files(source.path).joinpath(f"{config}.yaml").read_text(encoding="utf-8")
            if source.scheme() == "file":
                return Path(source.path, f"{config}.yaml").read_text(encoding="utf-8")
    return ""


def text(config: DictConfig, *, everything: bool) -> str:
    """Help of a command: its most used options, or all of them with the presets."""
    if not everything:
        return short_text(config)
    parts = (
        config.hydra.help.header,
        presets_text(config),
        "Options and their values:\n",
        options_text(config),
        "",
        config.hydra.help.footer,
    )
    return "\n".join(parts)
