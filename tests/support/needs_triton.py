"""Mark of tests that compile or interpret kernels of Triton."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
