"""A user's process that loads an exported network and calls it for a second."""

from __future__ import annotations

import sys
import time
from typing import NoReturn

import numpy as np


def main() -> None:
    """Loads the library of the first word. An error for the user is one line, any other a traceback."""
    import foretune
    from foretune.errors import UserError

    try:
        network = foretune.load(sys.argv[1])
        inputs = [np.zeros(spec.shape, spec.dtype) for spec in network.inputs]
        until = time.monotonic() + 1
        while time.monotonic() < until:
            network(*inputs)
    except UserError as error:
        _fail(str(error))
    except MemoryError:
        _fail("out of memory")


def _fail(message: str) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)
