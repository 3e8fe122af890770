"""Limits of a lent machine."""

from __future__ import annotations

from dataclasses import dataclass

MB = 1 << 20


class CampaignError(Exception):
    """A step cannot run; the message names the step, the cause and the remedy."""


@dataclass(frozen=True)
class Limits:
    """Limits of one call; sizes are in bytes."""

    call_s: float = 600.0
    sent: int = 64 * MB
    """Working tree and carried folders in total."""
    files: int = 8
    """Number of files that come back, including the manifest."""
    file: int = 16 * MB
    returned: int = 64 * MB
    """All files that come back in total."""

    @property
    def pieces(self) -> int:
        """Largest number of full pieces that come back together with the manifest."""
        return min(self.files - 1, (self.returned - MB) // self.file)


LIMITS = Limits()
