"""Calibration inputs: a user's file, random ones, files that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foretune.compiler.networks import Network
from foretune.compiler.networks.low_precision.calibration import (
    RANDOM_INPUTS,
    CalibrationError,
    calibration_inputs,
)

NETWORK = Network("net", (np.zeros((2, 3), np.float32), np.zeros((2, 4), np.int64)))


def test_random_inputs_begin_with_the_example_and_are_the_same_each_time() -> None:
    runs = calibration_inputs(NETWORK, None)
    assert len(runs) == RANDOM_INPUTS and runs[0] is NETWORK.inputs
    assert all(run[0].shape == (2, 3) and run[0].dtype == np.float32 for run in runs)
    again = calibration_inputs(NETWORK, None)
    assert all((a[0] == b[0]).all() for a, b in zip(runs, again, strict=True))
    assert not (runs[1][0] == runs[2][0]).any()


def test_a_file_holds_the_inputs_of_several_runs(tmp_path: Path) -> None:
    images = np.arange(12.0).reshape(4, 3)  # float64 is converted
    np.savez(tmp_path / "inputs.npz", images, np.arange(16).reshape(4, 4))
    first, second = calibration_inputs(NETWORK, tmp_path / "inputs.npz")
    assert first[0].tolist() == images[:2].tolist() and first[0].dtype == np.float32
    assert second[0].tolist() == images[2:].tolist() and second[1][0, 0] == 8


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([np.zeros((2, 3))], r"1 array, but network=net has 2 inputs"),
        ([np.zeros((2, 5)), np.zeros((2, 4), int)], r"array 0 has shape \[2, 5\], and the input \[2, 3\]"),
        ([np.zeros((3, 3)), np.zeros((2, 4), int)], r"array 0 has shape \[3, 3\]"),
        ([np.zeros((0, 3)), np.zeros((2, 4), int)], r"array 0 has shape \[0, 3\]"),
        ([np.zeros((2, 3)), np.zeros((2, 4))], r"array 1 is float64, and the input is int64"),
        ([np.zeros((4, 3)), np.zeros((2, 4), int)], r"the arrays hold 1 and 2 runs"),
        ([np.full((2, 3), np.nan), np.zeros((2, 4), int)], r"array 0 has values that are not finite"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path: Path, arrays: list[Any], message: str) -> None:
    np.savez(tmp_path / "inputs.npz", *arrays)
    with pytest.raises(CalibrationError, match=rf"lowering\.calibration=.*inputs\.npz: {message}"):
        calibration_inputs(NETWORK, tmp_path / "inputs.npz")


@pytest.mark.parametrize("content", [None, b"no archive", b"PK\x03\x04broken"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "inputs.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CalibrationError, match=r"lowering\.calibration=.*(no such file|no readable \.npz)"):
        calibration_inputs(NETWORK, path)


def test_pickled_and_single_arrays_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "pickled.npz", np.array([{}], dtype=object))
    np.save(tmp_path / "single.npy", np.zeros(3))
    for name in ("pickled.npz", "single.npy"):
        with pytest.raises(CalibrationError, match=r"no readable \.npz"):
            calibration_inputs(NETWORK, tmp_path / name)
