"""Taps that read nothing but padding: which ones, and that outputs stay the same."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from foretune.compiler.networks.lowering.dead_taps import live_taps, without_dead_taps
from foretune.compiler.tvm_compat import relax_bindings
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional
from tvm import relax, tirx


@pytest.mark.parametrize(
    ("size", "outputs", "taps", "stride", "padding", "dilation", "kept"),
    [
        (1, 1, 3, 1, 1, 1, (1, 2)),  # the single row of an image
        (2, 2, 3, 1, 1, 1, (0, 3)),  # each tap reads one of two rows
        (2, 1, 3, 2, 1, 1, (1, 3)),
        (33, 33, 3, 1, 36, 36, (1, 2)),  # farther apart than the image is large
        (1, 1, 5, 1, 2, 1, (2, 3)),
        (None, None, 3, 1, 1, 1, (0, 3)),
    ],
)
def test_taps_to_keep(
    size: int | None,
    outputs: int | None,
    taps: int,
    stride: int,
    padding: int,
    dilation: int,
    kept: tuple[int, int],
) -> None:
    assert live_taps(size, outputs, taps, stride, padding, padding, dilation) == kept


@given(
    size=st.integers(1, 6),
    taps=st.integers(1, 5),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 4),
    padding=st.integers(0, 6),
)
def test_outputs_stay_the_same(size: int, taps: int, stride: int, dilation: int, padding: int) -> None:
    """PyTorch's convolution with the taps that are kept, and the padding that this leaves."""
    if size + 2 * padding < (taps - 1) * dilation + 1:
        return
    generator = torch.Generator().manual_seed(0)
    data, weight = (torch.randn(1, 1, count, generator=generator) for count in (size, taps))
    wanted = functional.conv1d(data, weight, None, stride, padding, dilation)
    low, high = live_taps(size, wanted.shape[2], taps, stride, padding, padding, dilation)
    before, after = padding - low * dilation, padding - (taps - high) * dilation
    assert before >= 0 and after >= 0
    padded = functional.pad(data, (before, after))
    found = functional.conv1d(padded, weight[:, :, low:high], None, stride, 0, dilation)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize(("rows", "window"), [(1, [1, 3]), (2, [3, 3])])
def test_a_text_line_of_one_row_keeps_one_row_of_taps(rows: int, window: list[int]) -> None:
    """The width is a symbol, whose taps all stay."""
    data = relax.Var("data", relax.TensorType([1, 4, rows, tirx.Var("width", "int64")], "float32"))
    weight = np.arange(8 * 4 * 9, dtype=np.float32).reshape(8, 4, 3, 3)
    builder = relax.BlockBuilder()
    with builder.function("main", [data]):
        found = builder.emit(relax.op.nn.conv2d(data, relax.const(weight), padding=[1, 1, 1, 1]))
        builder.emit_func_output(found)
    mod = without_dead_taps(builder.get())
    ((_, call),) = relax_bindings(mod["main"])
    kept = call.args[1].value.numpy()
    assert list(kept.shape) == [8, 4, *window]
    np.testing.assert_array_equal(kept, weight[:, :, 1:2] if rows == 1 else weight)
    assert [int(one) for one in call.attrs.padding] == [1 if rows > 1 else 0, 1] * 2
    assert str(call.ty.shape) == str(builder.get()["main"].ret_ty.shape)
