"""Loading of a network with dynamic shapes, by the settings of a command."""

from __future__ import annotations

from typing import Any, Protocol

from ...compiler.networks import Network, load_network
from ...compiler.networks.dynamic.dynamic_inputs import DynamicInputs, dynamic_inputs, sizes_text
from ...compiler.networks.loading import BadInputShapeError


class Described(Protocol):
    """Settings that describe a network, its inputs and their ranges."""

    network: Any
    inputs: Any
    kwargs: Any
    batch: Any
    dims: Any
    seed: int


def load_dynamic(config: Described) -> tuple[Network, DynamicInputs]:
    """The network, with example inputs for the sizes of its trace, and the shapes of its inputs.

    Raises DynamicShapeError, and the errors of `load_network`.
    """
    dynamic = dynamic_inputs(config.network, config.inputs, config.batch, config.dims)
    inputs = dynamic.at(dynamic.traced)
    try:
        network = load_network(config.network, inputs=inputs, seed=config.seed, kwargs=config.kwargs)
    except BadInputShapeError as error:
        advice = "; give extents that must be equal the same symbol" if len(dynamic.symbols) > 1 else ""
        raise BadInputShapeError(f"{error}, here for {sizes_text(dynamic.traced)}{advice}") from error
    return network, dynamic.without_values() if network.module is None else dynamic
