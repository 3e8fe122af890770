"""Folder of foretune in the user's cache."""

from __future__ import annotations

from pathlib import Path

import pytest
from foretune.cache_folder import cache_folder


@pytest.mark.parametrize("given", ["", "cache", "./cache"])
def test_a_variable_without_an_absolute_path_is_ignored(given, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", given)
    assert cache_folder() == Path.home() / ".cache" / "foretune"


def test_the_variable_names_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "foretune"


def test_without_the_variable_it_is_in_the_home(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "foretune"
