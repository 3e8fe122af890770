"""Limits of a lent machine."""

from __future__ import annotations

from dataclasses import dataclass

MB = 1 << 20


class CampaignError(Exception):
    """A step cannot be done; the text says which, why, and what to do."""


@dataclass(frozen=True)
class Limits:
    """Limits of one call; sizes are in bytes."""

    call_s: float = 600.0
    sent: int = 64 * MB
    """Working tree and carried folders together."""
    files: int = 8
    """Files that come back, manifest included."""
    file: int = 16 * MB
    returned: int = 64 * MB
    """All files that come back together."""

    @property
    def pieces(self) -> int:
        """Largest number of full pieces that come back beside their manifest."""
        return min(self.files - 1, (self.returned - MB) // self.file)


LIMITS = Limits()
