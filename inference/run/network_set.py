"""Networks of a run: one, or a set of networks, batch sizes and input shapes with one operator set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from ...compiler.task import Task
from ...errors import UserError

NAME = "{name}"
"""Placeholder for a network's name in the pattern of exported files."""


class NetworkSetError(UserError, ValueError):
    """A set of networks is invalid, or networks in it failed."""


@dataclass(frozen=True)
class Member:
    """One network of a run, with its inputs."""

    name: str
    """Name within the set, also used in file names."""
    network: str
    batch: int
    inputs: list[Any] | None

    def arguments(self, seed: int, kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
        """Arguments of `load_network`, from which another process builds the same network."""
        return {
            "name_or_path": self.network,
            "inputs": self.inputs,
            "batch": self.batch,
            "seed": seed,
            "kwargs": kwargs,
        }


def members_of(network: Any, batch: Any = 1, inputs: Any = None) -> list[Member]:
    """Networks of a run: each network with each batch size, or with each list of inputs.

    Args:
        network: a name or path, or a list of them.
        batch: a batch size, or a list of them.
        inputs: inputs of a network, such as [[1,128]]; or a list of these, such as [[[1,64]],[[1,128]]].

    Raises NetworkSetError.
    """
    networks = _listed("network", network, is_list=not isinstance(network, str))
    batches = _listed("batch", batch, is_list=_is_list(batch))
    several = _is_list(inputs) and all(_is_several(each) for each in inputs)
    shapes = _listed("inputs", inputs, is_list=several)
    for name in networks:
        if not isinstance(name, str) or not name:
            raise NetworkSetError(
                f"network={name!r}: a name, package.module:Factory, or the path of an .onnx file"
            )
    for size in batches:
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise NetworkSetError(f"batch={size!r}: a whole number of at least 1")
    if len(batches) > 1 and inputs is not None:
        raise NetworkSetError(
            f"batch={batches}: inputs= gives the shapes, batch sizes included; list them there, as in "
            "inputs=[[[1,64]],[[16,64]]]"
        )
    found = [
        Member(_name(each, size, shape, len(batches) > 1, len(shapes) > 1), each, size, shape)
        for each, size, shape in product(networks, batches, shapes)
    ]
    names: dict[str, int] = {}
    unique = []
    for member in found:
        count = names[member.name] = names.get(member.name, 0) + 1
        unique.append(member if count == 1 else replace(member, name=f"{member.name}-{count}"))
    return unique


def export_of(pattern: Path | None, member: Member, is_set: bool) -> Path | None:
    """File to which a network is exported: a set requires a folder, or a pattern with {name}."""
    if pattern is None or not is_set:
        return pattern
    if NAME in str(pattern):
        return Path(str(pattern).replace(NAME, member.name))
    return pattern / f"{member.name}.so"


def check_export(pattern: Path | None, is_set: bool) -> None:
    """Raises NetworkSetError if a set is exported to a single file."""
    if pattern is not None and is_set and NAME not in str(pattern) and pattern.suffix:
        raise NetworkSetError(
            f"export={pattern}: several networks need a file each; give a folder, or a pattern such as "
            f"export={pattern.with_name(f'{NAME}{pattern.suffix}')}"
        )


def operator_set(tasks: Mapping[str, Sequence[Task]]) -> list[Task]:
    """Tasks of several networks without duplicates, each with the sum of its weights.

    Args:
        tasks: tasks of each network, by its name in the set. If two different tasks share a name, the name of
            the later one includes its network.
    """
    found: dict[str, Task] = {}
    names: set[str] = set()
    for network, own in tasks.items():
        for task in own:
            key = task.workload_hash
            if key in found:
                found[key] = replace(found[key], weight=found[key].weight + task.weight)
                continue
            name = task.name if task.name not in names else f"{network}/{task.name}"
            names.add(name)
            found[key] = replace(task, name=name)
    return list(found.values())


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_several(inputs: Any) -> bool:
    """Whether an element of `inputs` holds all inputs of a network, rather than one shape."""
    return _is_list(inputs) and (not inputs or isinstance(inputs[0], Mapping) or _is_list(inputs[0]))


def _listed(field: str, value: Any, *, is_list: bool) -> list[Any]:
    """The value as a list; raises NetworkSetError for an empty list and for duplicates."""
    if not is_list:
        return [value]
    if not _is_list(value):
        raise NetworkSetError(f"{field}={value!r}: give one, or a list")
    if not value:
        raise NetworkSetError(f"{field}=[]: the list is empty; give at least one")
    twice = [each for number, each in enumerate(value) if each in value[:number]]
    if twice:
        raise NetworkSetError(f"{field}: {twice[0]} is listed twice; list it once")
    return list(value)


def _name(network: str, batch: int, inputs: Any, batches: bool, several: bool) -> str:
    name = Path(network).stem if network.endswith(".onnx") else network.rpartition(":")[2]
    if batches:
        name += f"-batch{batch}"
    if several:
        shapes = [
            each.get("shape", each.get("value", each)) if isinstance(each, Mapping) else each
            for each in inputs
        ]
        sizes = [
            "x".join(str(extent) for extent in shape) if _is_list(shape) else str(shape) for shape in shapes
        ]
        name += "-" + "-".join(sizes)
    return name
