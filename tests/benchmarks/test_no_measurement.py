"""Networks tuned without a measurement, beside the default search."""

from __future__ import annotations

from benchmarks import no_measurement as subject

RUN = {
    "default": {
        "total_s": 100.0,
        "stage_s": {
            "start and imports": 3.0,
            "search and measure": 90.0,
            "link": 7.0,
            "time the export": 9.0,
        },
    },
    "predicted": {"total_s": 20.0, "stage_s": {"start and imports": 4.0, "compile": 10.0, "export": 6.0}},
    "templates": {"total_s": 15.0, "stage_s": {"compile": 6.0, "link": 4.0, "check outputs": 2.0}},
    "side_by_side_s": {"default": 0.004, "predicted": 0.005, "templates": 0.004},
}


def test_a_line_about_a_network():
    line = subject.describe("net", 0, RUN)
    assert line == (
        "net, seed 0: default 4.000 ms after 100.0 s, predicted 5.000 ms after 20.0 s, "
        "templates 4.000 ms after 15.0 s"
    )
