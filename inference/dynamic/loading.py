"""Loading of a network with dynamic shapes, by the settings of a command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...compiler.networks import Network, load_network
from ...compiler.networks.dynamic.dynamic_inputs import DynamicInputs, dynamic_inputs, sizes_text
from ...compiler.networks.inputs import BadInputShapeError, InputSpec


def load_dynamic(
    name: str,
    inputs: Sequence[InputSpec] | None,
    batch: Any,
    dims: Mapping[str, Any] | None,
    seed: int,
    kwargs: dict[str, Any] | None,
) -> tuple[Network, DynamicInputs]:
    """The network, with example inputs for the sizes of its trace, and the shapes of its inputs.

    See `dynamic_inputs` and `load_network` for the arguments. Raises their errors.
    """
    dynamic = dynamic_inputs(name, inputs, batch, dims)
    try:
        network = load_network(name, inputs=dynamic.at(dynamic.traced), seed=seed, kwargs=kwargs)
    except BadInputShapeError as error:
        advice = "; give extents that must be equal the same symbol" if len(dynamic.symbols) > 1 else ""
        raise BadInputShapeError(f"{error}, here for {sizes_text(dynamic.traced)}{advice}") from error
    return network, dynamic.without_values() if network.module is None else dynamic
