"""Data types of TIR's vector expressions, and LLVM's text next to TIR's code."""

from __future__ import annotations

from typing import Any

from tvm import tirx

IMPORT_LLVM = "pragma_import_llvm"
"""Attribute of a statement whose value is LLVM's text, with functions that the statement calls."""


def lane_dtype(value: Any) -> str:
    """Data type of one lane of an expression."""
    return str(value.ty.dtype).partition("x")[0]


def lanes_of(value: Any) -> int:
    """Number of lanes of an expression."""
    return int(str(value.ty.dtype).partition("x")[2] or 1)


def dtype_as_wide(dtype: str, value: Any) -> str:
    """`dtype` of a lane with as many lanes as an expression."""
    return f"{dtype}x{lanes_of(value)}" if lanes_of(value) > 1 else dtype


def importing_llvm(text: str, body: Any) -> tirx.AttrStmt:
    """A statement next to which LLVM compiles functions that it calls."""
    return tirx.AttrStmt(tirx.const(0, "int32"), IMPORT_LLVM, text, body)
