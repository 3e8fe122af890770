"""Inputs of a network in a .npz file, on which its outputs are compared."""

from __future__ import annotations

import zipfile
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UserError
from .importing import onnx_import
from .loading import Network


class InputFileError(UserError, ValueError):
    """A file of inputs cannot be read, or does not fit the network."""


def arrays_in_file(field: str, file: str | Path) -> dict[str, NDArray[Any]]:
    """Arrays of a .npz file by name; `field` is the setting with the file. Raises InputFileError.

    Objects that NumPy would unpickle are refused.
    """
    try:
        with np.load(file, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except FileNotFoundError as error:
        raise InputFileError(f"{field}: no such file; write one with numpy.savez") from error
    except (OSError, ValueError, AttributeError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise InputFileError(
            f"{field}: no readable .npz of plain arrays ({error}); write one with numpy.savez"
        ) from error


def input_names(network: Network) -> list[str]:
    """Names of the inputs: those of the ONNX file, or of the module's arguments."""
    if network.module is None:
        assert network.onnx_path is not None
        return [name for name, *_ in onnx_import.input_signature(network.onnx_path)]
    taken = [
        name
        for name, parameter in signature(network.module.forward).parameters.items()
        if parameter.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    ]
    count = len(network.inputs)
    return taken[:count] + [f"arr_{number}" for number in range(len(taken), count)]


def network_with_inputs_of(network: Network, file: str | Path) -> Network:
    """The network with the inputs in a .npz file: one array for each, under its name, or by position.

    By position, arrays have the names that `numpy.savez(file, *arrays)` gives them: arr_0, arr_1. Raises
    InputFileError.
    """
    field = f"check_inputs={file}"
    arrays, names = arrays_in_file(field, file), input_names(network)
    positional = [f"arr_{number}" for number in range(len(names))]
    wanted = positional if set(arrays) == set(positional) else names
    missing = [name for name in wanted if name not in arrays]
    unknown = [name for name in arrays if name not in wanted]
    if missing or unknown:
        lacks = f"lacks {', '.join(missing)}" if missing else f"has the unknown {', '.join(unknown)}"
        raise InputFileError(
            f"{field}: the file {lacks}; network={network.name} has the inputs {', '.join(names)}: write one "
            "array for each with numpy.savez"
        )
    for name, label, like in zip(wanted, names, network.inputs, strict=True):
        found = arrays[name]
        if found.shape != like.shape or found.dtype != like.dtype:
            raise InputFileError(
                f"{field}: {label} is {found.dtype} of shape {list(found.shape)}, and network={network.name} "
                f"takes {like.dtype} of shape {list(like.shape)}; convert it, or correct inputs="
            )
    return network.with_inputs(
        [
            np.ascontiguousarray(arrays[name]).reshape(like.shape)
            for name, like in zip(wanted, network.inputs, strict=True)
        ]
    )
