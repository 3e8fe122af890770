"""Inputs in a .npz file: by name, by position, and files that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from foretune.compiler.networks import Network
from foretune.compiler.networks.input_file import InputFileError, network_with_inputs_of
from torch import nn


class Masked(nn.Module):
    """A product with a mask."""

    def forward(self, image: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return image * mask


NETWORK = Network("masked", (np.zeros((1, 3), np.float32), np.zeros((1, 3), np.int64)), Masked())
IMAGE, MASK = np.array([[1, 2, 3]], np.float32), np.array([[1, 0, 1]])


def test_inputs_are_found_by_name_or_by_position(tmp_path: Path) -> None:
    np.savez(tmp_path / "named.npz", mask=MASK, image=IMAGE)
    np.savez(tmp_path / "positions.npz", IMAGE, MASK)
    for name in ("named", "positions"):
        image, mask = network_with_inputs_of(NETWORK, tmp_path / f"{name}.npz").inputs
        assert image.tolist() == IMAGE.tolist() and mask.tolist() == MASK.tolist()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"image": IMAGE}, "the file lacks mask; network=masked has the inputs image, mask"),
        ({"arr_0": IMAGE}, "the file lacks image, mask"),
        ({"image": IMAGE, "mask": MASK, "more": MASK}, "the file has the unknown more"),
        ({"image": IMAGE.T, "mask": MASK}, r"image is float32 of shape \[3, 1\], and .* of shape \[1, 3\]"),
        ({"image": IMAGE, "mask": MASK > 0}, "mask is bool of shape .* takes int64"),
        ({"image": np.array([{}]), "mask": MASK}, "no readable .npz of plain arrays .*Object arrays"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    path = tmp_path / "inputs.npz"
    np.savez(path, **arrays)
    with pytest.raises(InputFileError, match=rf"check_inputs=.*inputs\.npz: {message}"):
        network_with_inputs_of(NETWORK, path)


@pytest.mark.parametrize("content", [None, b"", b"no archive", b"PK\x03\x04broken"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "inputs.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputFileError, match=r"(no such file|no readable .npz)"):
        network_with_inputs_of(NETWORK, path)
