"""A user's process that loads an exported network and calls it for a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import numpy as np


def main(words: Sequence[str]) -> None:
    """Loads the library that `words` name; an error for the user is one line, any other a traceback."""
    import foretune
    from foretune.errors import UserError

    try:
        network = foretune.load(words[0])
        inputs = [np.zeros(spec.shape, spec.dtype) for spec in network.inputs]
        until = time.monotonic() + 1
        while time.monotonic() < until:
            network(*inputs)
    except UserError as error:
        sys.exit(f"error: {error}")
    except MemoryError:
        sys.exit("error: out of memory")
