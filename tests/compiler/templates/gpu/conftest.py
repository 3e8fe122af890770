"""A cache of compiled kernels apart from that of the user."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="package")
def triton_cache(tmp_path_factory: pytest.TempPathFactory):
    """Folder of compiled kernels."""
    folder: Path = tmp_path_factory.mktemp("triton")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(folder))
        yield folder
