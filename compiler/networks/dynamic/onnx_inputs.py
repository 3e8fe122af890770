"""Inputs of an ONNX file with the symbols that the file names. Works without TVM."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ....wording import counted
from ...dynamic.symbols import DynamicShapeError, is_extent
from ..importing.onnx_import import declared_inputs
from ..inputs import InputSpec, has_value


def own_specs(path: Path, batch: int | str, named: Collection[str]) -> list[InputSpec]:
    """Specifications of the file's inputs, whose dynamic extents are texts.

    Args:
        path: the file.
        batch: leading extent of inputs for which the file has no name, or one that `named` has not.
        named: symbols whose range is given.

    Raises DynamicShapeError for an extent that the file does not name.
    """
    specs: list[InputSpec] = []
    for name, shape, dtype in declared_inputs(path):
        extents: list[int | str] = []
        for axis, extent in enumerate(shape):
            given = extent
            if axis == 0 and not isinstance(extent, int) and extent not in named:
                given = batch if extent is None or batch != 1 else extent
            if given is None or (isinstance(given, str) and not is_extent(given)):
                shown = "no name" if given is None else f"the name {given!r}"
                raise DynamicShapeError(
                    f"network={path}: dimension {axis} of input {name} has {shown} in the file, so that "
                    'dims= cannot give its range; give the shapes of all inputs, as in inputs=[[1,"n=1:512"]]'
                )
            extents.append(given)
        specs.append({"shape": extents, "dtype": dtype})
    return specs


def completed(path: Path, specs: Sequence[InputSpec]) -> list[InputSpec]:
    """A user's specifications with the data types of the file.

    Raises DynamicShapeError for shapes that the file does not take.
    """
    declared = declared_inputs(path)
    if len(specs) != len(declared):
        raise DynamicShapeError(
            f"network={path}: inputs= has {counted(len(specs), 'specification')}, and the file takes "
            f"{counted(len(declared), 'input')}: {', '.join(name for name, *_ in declared)}"
        )
    return [
        spec if has_value(spec) else _completed(path, spec, *one)
        for spec, one in zip(specs, declared, strict=True)
    ]


def _completed(
    path: Path, spec: InputSpec, name: str, declared: Sequence[int | str | None], dtype: str
) -> Mapping[str, Any]:
    given = dict(spec) if isinstance(spec, Mapping) else {"shape": spec}
    shape = given.get("shape")
    if isinstance(shape, Sequence) and not isinstance(shape, str):
        fixed = [isinstance(extent, int) for extent in declared]
        if len(shape) != len(declared) or any(
            is_fixed and own != extent for is_fixed, own, extent in zip(fixed, declared, shape, strict=True)
        ):
            shown = ["any" if isinstance(one, str) or one is None else one for one in declared]
            raise DynamicShapeError(
                f"network={path}: input {name} has shape {shown} in the file, and inputs= gives "
                f"{list(shape)}; correct inputs=, or export the file with dynamic extents"
            )
    return {"dtype": dtype, **given}
