"""Names of the engines. Works without TVM."""

from __future__ import annotations

FORETUNE, BUCKETS, FIXED, SEARCHED = "foretune", "buckets", "fixed", "fixed_searched"

SEARCHES = {BUCKETS: "no_measurement", FIXED: "no_measurement", SEARCHED: "default"}
"""Search of each engine of fixed shapes."""

ORACLES = (FIXED, SEARCHED)
"""Engines with a library for the size alone."""

RIVAL_ENGINES = ("openvino", "onnxruntime", "inductor")
"""Names in `rivals.registry.RIVALS`."""

ENGINES = (FORETUNE, *SEARCHES, *RIVAL_ENGINES)
