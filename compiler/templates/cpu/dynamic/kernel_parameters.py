"""Parameters of one kernel of a family."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class KernelParameters:
    """One kernel of a family; it is right for all sizes of at least its register tile."""

    width: int
    """Columns of a panel."""
    rows: int
    """Rows of the register tile."""
    panels: int
    """Panels of the register tile."""
    order: str
    """Loop that is outermost."""

    @property
    def columns(self) -> int:
        """Columns of the register tile."""
        return self.panels * self.width
