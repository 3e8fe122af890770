"""Networks tuned without a measurement, beside the default search."""

from __future__ import annotations

import json
from types import SimpleNamespace

from benchmarks.no_measurement import __main__ as subject
from benchmarks.tables.networks import no_measurement

RUN = {
    "default": {"total_s": 100.0},
    "predicted": {"total_s": 20.0},
    "side_by_side_s": {"default": 0.004, "predicted": 0.005},
}


def test_a_line_about_a_pair():
    line = subject.describe("net", 0, RUN)
    assert line == "net, seed 0: default 4.000 ms after 100.0 s, predicted 5.000 ms after 20.0 s"


def test_the_table_has_the_share_of_the_speed():
    slower = json.loads(json.dumps(RUN))
    slower["side_by_side_s"]["predicted"] = 0.008
    result = SimpleNamespace(
        machine="AMD Zen 3", values={"networks": {"resnet18": {"runs": [RUN, RUN, slower]}}}
    )
    table = no_measurement(SimpleNamespace(of=lambda benchmark: [result]))
    assert "| AMD Zen 3 | ResNet-18 | 3 | 20 s | 1 min 40 s | 80% (50% to 80%) |" in table
    none = no_measurement(SimpleNamespace(of=lambda benchmark: []))
    assert none == "Not measured yet: `python -m benchmarks.no_measurement`."
