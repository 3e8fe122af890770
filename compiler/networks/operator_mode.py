"""Base of contexts that see each operator that PyTorch dispatches in them."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class OperatorMode(TorchDispatchMode):
    """Context for networks that run eagerly."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False: PyTorch would import its compiler, for seconds, to keep it away from this context."""
        return False
