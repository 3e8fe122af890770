"""Rows of data types."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
from foretune.compiler.types import (
    NETWORK_DTYPES,
    OPERATOR_DTYPES,
    TYPES,
    DataType,
    data_type,
    known_type,
    numpy_type,
)


def test_draws_depend_on_the_order_of_operator_types() -> None:
    assert OPERATOR_DTYPES == ("float32", "float16", "int8", "bfloat16")


@pytest.mark.parametrize("dtype", TYPES, ids=lambda one: one.name)
def test_a_name_is_the_same_in_numpy_and_torch(dtype: DataType) -> None:
    assert numpy_type(dtype.name).itemsize == dtype.bytes == getattr(torch, dtype.name).itemsize


def test_numpy_gets_bfloat16_from_ml_dtypes() -> None:
    assert numpy_type("bfloat16") == np.dtype(ml_dtypes.bfloat16)
    assert numpy_type("bool") == np.dtype(bool) and known_type("bool") is None


def test_integers_have_a_range() -> None:
    assert data_type("int8").range == (-128, 127) and data_type("uint8").range == (0, 255)
    assert [one.name for one in TYPES if one.is_integer] == ["int8", "uint8", "int32"]


def test_unsigned_data_meets_signed_weights() -> None:
    assert data_type("int8").factors == ("uint8", "int8")
    assert data_type("float16").factors == ("float16", "float16")


def test_every_type_of_networks_has_tolerances_and_one_of_operators_sums() -> None:
    for name in NETWORK_DTYPES:
        accepted = data_type(name).tolerances
        assert 0 <= accepted.rounding < accepted.network
    assert {name: data_type(name).sums for name in OPERATOR_DTYPES} == {
        **{"float32": "float32", "float16": "float16", "bfloat16": "float32", "int8": "int32"},
    }
