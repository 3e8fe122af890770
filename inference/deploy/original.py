"""Outputs of the original network on several inputs, and the comparison with them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...compiler.networks import Network
from ...compiler.networks.importing import onnx_import
from ...compiler.networks.input_file import InputFileError, network_with_inputs_of
from ...compiler.networks.loading import kind_and_line
from ...compiler.networks.random_draws import require_equal
from ...compiler.types import WIDE
from .agreement import rival_differences
from .outputs import (
    OutputCheck,
    OutputFormError,
    compare_narrow_outputs,
    compare_outputs,
    require_same_form,
    worst,
)

Run = Callable[..., Sequence[NDArray[Any]]]
"""A compiled network: inputs to outputs."""

DRAWN, EDGE = "drawn inputs", "inputs with zeros, negative, large and equal elements"

_TINY = 1e-20
"""Outputs without a larger element are of vanishing weights, and any other outputs would be as near."""


@dataclass(frozen=True, eq=False)
class _Case:
    """Inputs, and the comparison of outputs for them."""

    name: str
    network: Network
    reference: list[NDArray[Any]]
    compare: Callable[[Sequence[NDArray[Any]]], OutputCheck]


class Original:
    """The original network's outputs on the drawn inputs, on edge cases, and on a user's inputs.

    Edge cases are compared in float32 only: saturation in a narrower type is no fault.

    Args:
        network: the original.
        dtype: data type of the network that is compared.
        check_inputs: a file for `network_with_inputs_of`, or None.
        once: whether the network runs only once, on the drawn inputs: without a second run, which shows
            random outputs, and without edge cases.

    Raises InputFileError, RandomNetworkError, and the errors of `Network.reference_outputs`.
    """

    def __init__(
        self,
        network: Network,
        dtype: str = WIDE,
        check_inputs: Path | None = None,
        *,
        once: bool = False,
    ) -> None:
        self.dtype, self._check_inputs = dtype, check_inputs
        self.network = network
        drawn = _case(DRAWN, network, dtype)
        if network.module is not None and not once:
            again = network.first_outputs or network.reference_outputs()
            require_equal(network.name, drawn.reference, list(again))
        self._cases = [drawn]
        if dtype == WIDE and not once:
            with suppress(Exception):  # the original may reject such inputs
                self._cases.append(_case(EDGE, network.with_edge_inputs(), dtype))
        if check_inputs is not None:
            given = network_with_inputs_of(network, check_inputs)
            try:
                self._cases.append(_case(f"check_inputs={check_inputs}", given, dtype))
            except Exception as error:  # a user's forward may raise anything
                raise InputFileError(
                    f"check_inputs={check_inputs}: network={network.name} does not run on them: "
                    f"{kind_and_line(error)}; correct the file"
                ) from error

    def in_float32(self) -> Original:
        """The same for a network in float32."""
        return self if self.dtype == WIDE else Original(self.network, check_inputs=self._check_inputs)

    @property
    def compared_on(self) -> list[str]:
        """Names of the inputs on which outputs are compared."""
        return [case.name for case in self._cases]

    @property
    def inputs(self) -> list[tuple[NDArray[Any], ...]]:
        """Those inputs."""
        return [case.network.inputs for case in self._cases]

    @property
    def nbytes(self) -> int:
        """Bytes of all inputs and outputs."""
        return sum(array.nbytes for case in self._cases for array in (*case.network.inputs, *case.reference))

    def compare(self, outputs: Sequence[NDArray[Any]]) -> OutputCheck:
        """Compares outputs for the drawn inputs. Raises OutputFormError."""
        return self._cases[0].compare(outputs)

    def check(self, run: Run, enough_s: float = math.inf) -> OutputCheck:
        """Compares outputs for all inputs, or until `enough_s` seconds have passed.

        Raises OutputFormError, which names the network.
        """
        checks: list[OutputCheck] = []
        began = time.monotonic()
        for case in self._cases:
            if checks and time.monotonic() - began > enough_s:
                break
            # The copies are the network's own to change.
            outputs = run(*(array.copy() for array in case.network.inputs))
            try:
                require_same_form(case.reference, outputs, narrow=self.dtype != WIDE)
            except OutputFormError as error:
                raise OutputFormError(
                    f"network={self.network.name}: after its conversion, {error}"
                ) from error
            check = case.compare(outputs)
            checks.append(check if case.name == DRAWN else replace(check, inputs=case.name))
        return worst(checks)

    def network_with(self, inputs: str) -> Network:
        """The network with the inputs of this name, as in `OutputCheck.inputs`; else with the drawn ones."""
        return next((case.network for case in self._cases if case.name == inputs), self.network)

    def describe(self, check: OutputCheck) -> str:
        """A difference in words, with the name of the output if it has one."""
        path = self.network.onnx_path
        return check.describe([] if path is None else onnx_import.output_names(path))

    def unchecked(self) -> list[str]:
        """A text for each output whose comparison says nothing, because it has the same value everywhere.

        An output that is the same on all inputs may be right, but almost any fault would leave it as it is.
        """
        found = []
        for output, arrays in enumerate(zip(*(case.reference for case in self._cases), strict=True)):
            values = np.concatenate([array.reshape(-1) for array in arrays])
            if reason := _emptiness(values):
                found.append(f"output {output} is {reason}")
        return found


def comparison_with_original(
    network: Network, dtype: str = WIDE
) -> Callable[[Sequence[NDArray[Any]]], OutputCheck]:
    """Compares outputs for the example inputs alone with the network's own. Raises OutputFormError."""
    return _case(DRAWN, network, dtype).compare


def _emptiness(values: NDArray[Any]) -> str:
    """Why the elements of an output say nothing, or ""."""
    if not values.size:
        return "empty"
    if np.isnan(values).all() if values.dtype.kind == "f" else False:
        return "not a number anywhere"
    if (values == values[0]).all():
        value = str(values[0]) if values.dtype.kind == "b" else f"{values[0]:.6g}"
        return f"{value} everywhere"
    if values.dtype.kind == "f" and float(np.nanmax(np.abs(values))) < _TINY:
        return f"less than {_TINY:.0e} everywhere"
    return ""


def _case(name: str, network: Network, dtype: str) -> _Case:
    reference = network.reference_outputs()
    if dtype != WIDE:
        narrow = partial(
            compare_narrow_outputs,
            reference,
            rival_differences=rival_differences(network, dtype),
            dtype=dtype,
        )
        return _Case(name, network, reference, narrow)
    rounding_errors = cache(partial(network.rounding_errors, reference))
    changing = cache(partial(network.changing_elements, reference))

    def compare(outputs: Sequence[NDArray[Any]]) -> OutputCheck:
        check = compare_outputs(reference, outputs)
        if not check.agrees:
            check = compare_outputs(reference, outputs, rounding_errors())
        return check if check.agrees else compare_outputs(reference, outputs, rounding_errors(), changing())

    return _Case(name, network, reference, compare)
