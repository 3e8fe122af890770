"""Imports that begin before the main process has its own."""

from __future__ import annotations

import pytest
from foretune.inference.workers import ahead
from support.composition import composed


@pytest.mark.parametrize(
    ("words", "begins"),
    [
        ((), True),
        (("search=no_measurement",), True),
        (("search.processes=0",), False),
        (("require_database=true",), False),
        (("database=.",), False),
    ],
)
def test_search_processes_begin_ahead_if_a_search_is_likely(words, begins, monkeypatch):
    begun = []
    monkeypatch.setattr(ahead, "import_ahead", lambda module, environment: begun.append(module))
    ahead.start(composed("tune", *words))
    assert begun == [ahead.SEARCH_MODULE] * begins
