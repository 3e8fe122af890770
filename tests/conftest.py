"""Profiles of the property tests: the same examples in every run, unless a search is asked for."""

from __future__ import annotations

import os

from hypothesis import settings

# A test that draws anew in each run fails one day for an input that nobody saw. A busy machine is no failure,
# so there is no deadline.
settings.register_profile("repeatable", derandomize=True, deadline=None, print_blob=True)

# Looks for inputs that fail: HYPOTHESIS_PROFILE=explore, or pytest's --hypothesis-profile=explore.
settings.register_profile("explore", derandomize=False, deadline=None, print_blob=True)

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or "repeatable")
