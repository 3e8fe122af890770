"""Nodes of an ONNX graph with their types, and the nodes that replace one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class UnknownTypeError(Exception):
    """A shape or a data type is unknown before the network runs."""


class Graph:
    """Nodes and constants that replace one node; every method returns the name of its result."""

    def __init__(self, helper: Any, prefix: str, opset: int = 13) -> None:
        self._helper = helper
        self._prefix = prefix
        self._opset = opset
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._count = 0

    def __call__(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Adds a node with one output."""
        name = output or self.fresh()
        label = f"{self._prefix}{operator}_{len(self.nodes)}"
        self.nodes.append(self._helper.make_node(operator, list(inputs), [name], label, **attributes))
        return name

    def returns(self, names: Sequence[str], outputs: Sequence[str]) -> None:
        """Gives results the names of the outputs of the replaced node; an unused output has none."""
        for name, output in zip(names, outputs, strict=False):
            if output:
                self("Identity", name, output=output)

    def several(self, operator: str, inputs: Sequence[str], count: int, **attributes: Any) -> list[str]:
        """Adds a node with several outputs."""
        names = [self.fresh() for _ in range(count)]
        label = f"{self._prefix}{operator}_{len(self.nodes)}"
        self.nodes.append(self._helper.make_node(operator, list(inputs), names, label, **attributes))
        return names

    def constant(self, value: Any, dtype: Any = None) -> str:
        """Adds a constant."""
        array = np.asarray(value, dtype)
        name = self.fresh()
        kind = self._helper.np_dtype_to_tensor_dtype(array.dtype)
        self.constants.append(self._helper.make_tensor(name, kind, array.shape, array.tobytes(), raw=True))
        return name

    def part(self, x: str, first: int, last: int, axis: int) -> str:
        """Positions [first, last) of an axis."""
        bounds = [self.constant([value], np.int64) for value in (first, last, axis)]
        return self("Slice", x, *bounds)

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        """`x` in another shape without a 0."""
        return self("Reshape", x, self.constant(list(shape), np.int64))

    def cast(self, x: str, dtype: Any) -> str:
        """`x` in another data type."""
        return self("Cast", x, to=self._helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def reduce(self, operator: str, x: str, axes: Sequence[int], *, keepdims: bool = True) -> str:
        """A reduction: sizes of `axes` become 1."""
        if self._opset >= 18 or operator == "ReduceSum":
            return self(operator, x, self.constant(list(axes), np.int64), keepdims=int(keepdims))
        return self(operator, x, axes=list(axes), keepdims=int(keepdims))

    def fresh(self) -> str:
        """A name that no value has."""
        self._count += 1
        return f"{self._prefix}{self._count}"


class Node:
    """A node with what is known about its values; properties of unknown ones raise UnknownTypeError."""

    def __init__(
        self, proto: Any, types: Mapping[str, Any], constants: Mapping[str, Any], onnx: Any, opset: int
    ) -> None:
        self.proto = proto
        self.op: str = proto.op_type
        self.inputs: list[str] = list(proto.input)
        self.outputs: list[str] = list(proto.output)
        self.opset = opset
        self._types, self._constants, self._onnx = types, constants, onnx
        self._attributes = {one.name: one for one in proto.attribute}

    def has(self, place: int) -> bool:
        """Whether an input is given."""
        return place < len(self.inputs) and bool(self.inputs[place])

    def wants(self, place: int) -> bool:
        """Whether an output is read or returned."""
        return place < len(self.outputs) and bool(self.outputs[place])

    def x(self, place: int) -> str:
        """Name of an input, empty if it is not given."""
        return self.inputs[place] if place < len(self.inputs) else ""

    def get(self, name: str, default: Any = None) -> Any:
        """Value of an attribute: text, a number, a list or an array."""
        if name not in self._attributes:
            return default
        value = self._onnx.helper.get_attribute_value(self._attributes[name])
        if isinstance(value, bytes):
            return value.decode()
        if isinstance(value, self._onnx.TensorProto):
            return self._onnx.numpy_helper.to_array(value)
        return value

    def type_of(self, place: int) -> Any:
        """ONNX's type of an input; empty for one that is not given."""
        found = self._onnx.TypeProto()
        if self.has(place):
            tensor = self._types.get(self.x(place))
            if tensor is None or not tensor.elem_type:
                raise UnknownTypeError
            found.tensor_type.CopyFrom(tensor)
        return found

    def dtype(self, place: int) -> np.dtype[Any]:
        """Data type of an input."""
        tensor = self._types.get(self.x(place))
        if tensor is None or not tensor.elem_type:
            raise UnknownTypeError
        return np.dtype(self._onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))

    def shape(self, place: int) -> tuple[int, ...]:
        """Shape of an input."""
        tensor = self._types.get(self.x(place))
        if tensor is None or not tensor.HasField("shape"):
            raise UnknownTypeError
        if any(not axis.HasField("dim_value") for axis in tensor.shape.dim):
            raise UnknownTypeError
        return tuple(axis.dim_value for axis in tensor.shape.dim)

    def rank(self, place: int) -> int:
        """Number of axes of an input."""
        return len(self.shape(place))

    def constant(self, place: int) -> NDArray[Any] | None:
        """Value of an input that is constant; None for others and for inputs that are not given."""
        found = self._constants.get(self.x(place))
        return None if found is None else self._onnx.numpy_helper.to_array(found)

    def fixed(self, place: int) -> NDArray[Any]:
        """Value of an input that is constant."""
        found = self.constant(place)
        if found is None:
            raise UnknownTypeError
        return found
