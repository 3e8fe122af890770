"""Home folder of the Ray clusters that one test process starts."""

import tempfile
from functools import cache


@cache
def ray_home() -> str:
    """A folder for the token that Ray's processes share, which a process reads once for all its clusters."""
    return tempfile.mkdtemp(prefix="ray-home-")
