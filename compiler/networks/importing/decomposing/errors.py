"""The error of a conversion."""

from __future__ import annotations


class ConversionError(RuntimeError):
    """An operator or a program cannot be converted; the message names the operator."""
