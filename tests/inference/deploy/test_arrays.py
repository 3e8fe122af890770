"""Inputs that are read in place or copied, and outputs that belong to the caller."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import tvm
from foretune.inference.deploy.arrays import ALIGNMENT_BYTES, InputError, InputTensors, as_outputs
from foretune.inference.deploy.description import TensorSpec
from numpy.typing import NDArray

SPEC = TensorSpec("image", (4, 6), "float32")


def placed(offset_bytes: int) -> NDArray[Any]:
    """Float32 [4, 6] that lies `offset_bytes` behind a multiple of the alignment."""
    memory = np.zeros(4 * 6 * 4 + 2 * ALIGNMENT_BYTES, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT_BYTES + offset_bytes
    array = memory[start : start + 96].view(np.float32).reshape(4, 6)
    array[:] = np.arange(24).reshape(4, 6)
    return array


def address(tensor: tvm.runtime.Tensor) -> int:
    return np.from_dlpack(tensor).ctypes.data


def test_an_aligned_array_is_read_in_place() -> None:
    array = placed(0)
    (tensor,) = InputTensors([SPEC]).take([array])
    assert address(tensor) == array.ctypes.data


def test_a_torch_tensor_is_read_in_place() -> None:
    given = torch.rand(4, 6, requires_grad=True)
    (tensor,) = InputTensors([SPEC]).take([given])
    assert address(tensor) == given.data_ptr()


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "array",
    [
        pytest.param(placed(16), id="unaligned"),
        pytest.param(np.arange(24, dtype=np.float32).reshape(6, 4).T, id="transposed"),
        pytest.param(read_only(placed(0)), id="read-only"),
        pytest.param(torch.arange(24.0).reshape(6, 4).T, id="transposed torch"),
        pytest.param(torch.arange(25.0)[1:].reshape(4, 6), id="unaligned torch"),
    ],
)
def test_any_other_input_is_copied_into_one_aligned_buffer(array: Any) -> None:
    inputs = InputTensors([SPEC])
    (tensor,) = inputs.take([array])
    np.testing.assert_array_equal(tensor.numpy(), np.asarray(array))
    given = array.data_ptr() if isinstance(array, torch.Tensor) else array.ctypes.data
    assert address(tensor) != given and address(tensor) % ALIGNMENT_BYTES == 0
    (again,) = inputs.take([array])
    assert address(again) == address(tensor)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], r"no inputs given, 1 expected: image: float32 \[4, 6\]"),
        ([placed(0)] * 2, "2 inputs given, 1 expected"),
        ([np.zeros((4, 5), np.float32)], r"image: float32 \[4, 5\] given, float32 \[4, 6\] expected"),
        ([np.zeros((4, 6))], r"image: float64 \[4, 6\] given, float32 \[4, 6\] expected"),
        ([np.zeros((4, 6), ">f4")], r"image: >f4 \[4, 6\] given"),
        ([torch.zeros(4, 6, dtype=torch.bfloat16)], r"image: bfloat16 \[4, 6\] given"),
        ([torch.zeros(4, 6, device="meta")], r"image: a tensor on meta; move it to the CPU"),
        ([[1.0, 2.0]], r"image=\[1\.0, 2\.0\]: a list; give a NumPy array or a torch tensor, float32"),
    ],
)
def test_a_wrong_input_is_named_with_what_is_expected(inputs: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        InputTensors([SPEC]).take(inputs)


def filled(value: float) -> tvm.runtime.Tensor:
    return tvm.runtime.tensor(np.full((2, 3), value, np.float32))


@pytest.mark.parametrize("torch_wanted", [False, True])
def test_fresh_outputs_are_handed_over_and_others_copied(torch_wanted: bool) -> None:
    tensors = [filled(1), filled(2)]
    addresses = [address(tensor) for tensor in tensors]
    own, copied = as_outputs(tensors, [True, False], torch=torch_wanted)
    assert np.asarray(own).ctypes.data == addresses[0]
    assert np.asarray(copied).ctypes.data != addresses[1]
    assert isinstance(own, torch.Tensor if torch_wanted else np.ndarray)
    own[:] = 7  # writable
    np.testing.assert_array_equal(tensors[0].numpy(), 7)
    np.testing.assert_array_equal(np.asarray(copied), 2)


def test_an_output_outlives_the_tensor_that_it_came_from() -> None:
    (array,) = as_outputs([filled(3)], [True], torch=False)
    others = [filled(4) for _ in range(20)]  # would take its memory if it were free
    np.testing.assert_array_equal(np.asarray(array), 3)
    assert len(others) == 20


def test_a_tensor_that_is_returned_twice_is_handed_over_once() -> None:
    tensor = filled(5)
    first, second = as_outputs([tensor, tensor], [True, True], torch=False)
    first[:] = 0
    np.testing.assert_array_equal(np.asarray(second), 5)
