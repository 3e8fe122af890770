"""Cards of checkpoints that are changed after the checkpoint was written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def edit_card(directory: Path, **changes: Any) -> None:
    """Changes fields of a card, which is then without a hash, as one of an earlier version."""
    file = directory / "card.json"
    values = {**json.loads(file.read_text()), **changes}
    values.pop("card_sha256", None)
    file.write_text(json.dumps(values))
