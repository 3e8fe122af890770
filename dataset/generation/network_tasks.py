"""Tasks of whole networks, extracted exactly as by foretune tune."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from tvm.target import Target

from ...compiler.networks import (
    AS_FASTEST,
    Lowering,
    UnknownNetworkError,
    extract_tasks,
    load_network,
    to_relax,
)
from ...compiler.task import Task
from ...errors import UserError
from ..records.network_weights import NetworkWeights


class NetworkRequestError(UserError, ValueError):
    """An entry of `networks` does not identify a network."""


@dataclass(frozen=True)
class NetworkRequest:
    """Entry of `networks`; all fields except `name` are arguments of `load_network`."""

    network: str
    name: str | None = None
    """Name in the dataset, by default the network's own name."""
    inputs: Sequence[Any] | None = None
    batch: int = 1
    kwargs: Mapping[str, Any] | None = None

    @classmethod
    def from_entry(cls, entry: Any) -> NetworkRequest:
        """Create a request from a name, an import path, a file, or a mapping with the fields above.

        Raises NetworkRequestError.
        """
        known = {field.name for field in fields(cls)}
        if isinstance(entry, str):
            return cls(entry)
        if (
            isinstance(entry, Mapping)
            and isinstance(entry.get("network"), str)
            and isinstance(entry.get("batch", 1), int)
            and not set(entry) - known
        ):
            return cls(**{str(name): value for name, value in entry.items()})
        raise NetworkRequestError(
            f"networks: {entry!r} is not a network; use a name such as resnet18, a path ending in .onnx, or "
            f"{{network: package.module:Factory, inputs: [[1,3,224,224]]}} with fields of {sorted(known)}"
        )


def tasks_of_networks(
    entries: Sequence[Any], target: Target, lowering: Lowering = AS_FASTEST
) -> tuple[list[Task], NetworkWeights]:
    """Distinct tasks of the networks in the order of their calls, and the call counts by network.

    A task that several networks share has the first one as its source.

    Raises:
      NetworkRequestError: an entry is invalid, or two have the same name.
      UserError: see `load_network` and `to_relax`.
    """
    tasks: dict[str, Task] = {}
    networks: NetworkWeights = {}
    for request in [NetworkRequest.from_entry(entry) for entry in entries]:
        network = load_network(
            request.network, inputs=request.inputs, batch=request.batch, kwargs=request.kwargs
        )
        name = request.name or network.name
        if name in networks:
            raise NetworkRequestError(
                f"networks: two entries have the name {name}; drop one, or set its name, as in "
                f"{{network: {request.network}, batch: 4, name: {name}_b4}}"
            )
        own = extract_tasks(to_relax(network, target, lowering), target, name)
        if not own:
            raise UnknownNetworkError(f"networks: {name} has no task to measure; remove the entry")
        networks[name] = {task.workload_hash: task.weight for task in own}
        for task in own:
            tasks.setdefault(task.workload_hash, task)
    return list(tasks.values()), networks
