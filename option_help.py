"""Options for --help: the composed values, each under the comment that its YAML file has for it.

conf/hydra/help/foretune.yaml inserts both texts by the resolvers `foretune.presets` and `foretune.options`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from textwrap import indent
from typing import Any

import yaml
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

_HYDRA = "hydra"


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
        root = yaml.compose(text)
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
    values = OmegaConf.to_container(config, resolve=False)
    assert isinstance(values, dict)
    del values[_HYDRA]
    groups = {group.partition("/")[0] for group in config.hydra.runtime.choices}
    own_first = sorted(values, key=lambda name: name in groups)
    return "\n".join(_lines({name: values[name] for name in own_first}, Comments.of(config), ""))


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
    """The groups of a command with their presets, each with the first line of its file; empty without any."""
    loader = _loader()
    groups = []
    for group, chosen in config.hydra.runtime.choices.items():
        if group.partition("/")[0] == _HYDRA:
            continue
        presets = loader.get_group_options(group, ObjectType.CONFIG)
        if len(presets) < 2:
            continue
        width = max(map(len, presets))
        lines = []
        for preset in presets:
            meaning = FileComments.of(_text(loader, f"{group}/{preset}")).head[:1]
            lines.append(f"{'*' if preset == chosen else ' '} {preset:{width}}  {''.join(meaning)}".rstrip())
        groups.append(f"{group}\n{indent(chr(10).join(lines), '  ')}")
    if not groups:
        return ""
    return "\n".join(["Presets, as in GROUP=PRESET (* is chosen):\n", *groups, ""])


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


def register() -> None:
    """Registers the resolvers of the help template."""
    for name, text in (("presets", presets_text), ("options", options_text)):
        OmegaConf.register_new_resolver(
            f"foretune.{name}",
            # Hydra fills the template in with `string.Template`, to which a dollar is a placeholder.
            lambda *, _root_, text=text: text(_root_).replace("$", "$$"),
            replace=True,
        )
