"""Libraries of a run in its report."""

from __future__ import annotations

from foretune.inference.report.libraries import libraries_table, library_points
from foretune.inference.run.result import TUNED
from foretune.inference.run.written_library import WrittenLibrary
from support.results import make_contestant, make_result

WRITTEN = [WrittenLibrary(21.0, 0.012), WrittenLibrary(80.0, 0.008), WrittenLibrary(130.0)]


def test_each_library_has_a_row_and_the_last_one_the_latency_of_the_contestants() -> None:
    result = make_result(libraries=WRITTEN, contestants=[make_contestant(TUNED, 0.006)])
    assert libraries_table(result).rows == [
        ["1", "21.0 s", "12.0 ms", "1.00x"],
        ["2", "1 min 20 s", "8.00 ms", "1.50x"],
        ["3", "2 min 10 s", "6.00 ms", "2.00x"],
    ]
    assert library_points(result) == [(21.0, 0.012), (80.0, 0.008)]


def test_unknown_latencies_are_left_open() -> None:
    table = libraries_table(make_result(libraries=[WrittenLibrary(21.0), WRITTEN[2]], contestants=[]))
    assert [row[2:] for row in table.rows] == [["-", "-"], ["-", "-"]]


def test_a_run_with_one_library_has_no_table() -> None:
    assert not libraries_table(make_result(libraries=WRITTEN[2:]))
    assert not libraries_table(make_result())
