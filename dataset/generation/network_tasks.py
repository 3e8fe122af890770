"""Whole networks to measure: their tasks, cut out exactly as foretune-tune cuts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from tvm.target import Target

from ...errors import UserError
from ..network_weights import NetworkWeights
from ..networks import AS_FASTEST, Lowering, UnknownNetworkError, extract_tasks, load_network, to_relax
from ..task import Task


class NetworkRequestError(UserError, ValueError):
    """An entry of `networks` says not which network is meant."""


@dataclass(frozen=True)
class NetworkRequest:
    """One entry of `networks`; all but `name` is what `load_network` takes."""

    network: str
    name: str | None = None
    """What the dataset calls it; by default the network's own name."""
    inputs: Sequence[Any] | None = None
    batch: int = 1
    kwargs: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, entry: Any) -> NetworkRequest:
        """From a name, an import path or a file, or a mapping with the fields above.

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
            f"networks: {entry!r} is no network; give a name such as resnet18, a path that ends in .onnx, or "
            f"{{network: package.module:Factory, inputs: [[1,3,224,224]]}} with fields of {sorted(known)}"
        )


def tasks_of_networks(
    entries: Sequence[Any], target: Target, lowering: Lowering = AS_FASTEST
) -> tuple[list[Task], NetworkWeights]:
    """Every task of the networks once, in the order of their calls, and the calls by network.

    A task that several networks share has the source of the first.

    Raises:
      NetworkRequestError: an entry is none, or two have one name.
      UserError: what `load_network` and `to_relax` raise.
    """
    tasks: dict[str, Task] = {}
    networks: NetworkWeights = {}
    for request in [NetworkRequest.of(entry) for entry in entries]:
        network = load_network(
            request.network, inputs=request.inputs, batch=request.batch, kwargs=request.kwargs
        )
        name = request.name or network.name
        if name in networks:
            raise NetworkRequestError(
                f"networks: two are called {name}; drop one, or give it a name of its own, as in "
                f"{{network: {request.network}, batch: 4, name: {name}_b4}}"
            )
        own = extract_tasks(to_relax(network, target, lowering), target, name)
        if not own:
            raise UnknownNetworkError(f"networks: {name} has no task to measure; leave it out")
        networks[name] = {task.workload_hash: task.weight for task in own}
        for task in own:
            tasks.setdefault(task.workload_hash, task)
    return list(tasks.values()), networks
