"""A network compiled by TVM, run from its exported library."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from ....compiler.types import NETWORK_DTYPES
from .base import Bind, Engine, Form, NetworkSource


class TvmLibrary(Engine):
    """Exported library, run by `foretune.load` with threads that are not bound to cores."""

    title = "TVM"
    form = Form.LIBRARY
    module, package = "tvm", "apache-tvm"
    dtypes = NETWORK_DTYPES

    def prepare(self) -> None:
        """See Engine."""
        from .. import load  # noqa: F401

    def load(self, source: NetworkSource) -> Bind:
        """See Engine."""
        from ..load import load

        assert source.path is not None
        network = load(source.path, threads=self.threads)
        return lambda inputs: lambda: network(*inputs)

    def arrays(self, outputs: Any) -> list[NDArray[Any]]:
        """See Engine."""
        return list(outputs) if isinstance(outputs, tuple) else [outputs]
