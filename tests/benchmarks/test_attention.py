"""The networks whose attention is measured."""

from __future__ import annotations

import pytest
import torch

from benchmarks import attention as measured


def test_heads_of_a_layer_are_columns_of_its_rows() -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, 5, measured.HEADS * measured.WIDTH) for _ in range(3))
    found = measured.Attention()(query, key, value)
    head = slice(3 * measured.WIDTH, 4 * measured.WIDTH)
    weights = torch.softmax(query[0, :, head] @ key[0, :, head].T / 8, -1)
    torch.testing.assert_close(found[0, :, head], weights @ value[0, :, head])


@pytest.mark.parametrize("dtype", measured.DTYPES)
def test_each_case_can_be_made(dtype: str) -> None:
    found = measured.cases(dtype)
    assert len(found) == (len(measured.LENGTHS) + 1 if dtype == "float32" else 1)
    for network, shapes, given in found.values():
        module = getattr(measured, network)(**given)
        outputs = module.to("meta")(*(torch.empty(shape, device="meta") for shape in shapes))
        assert list(outputs.shape) == shapes[0]
