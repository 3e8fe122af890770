"""Pairs of measured programs that ETO's costs order rightly, by hand."""

from __future__ import annotations

from benchmarks.cuda_emulation.costs import TileCosts
from benchmarks.gpu_costs import DATASETS, Measured, ordered, programs_of


def measured(latency_s: float, lines: float, blocks: int, threads: int = 32, shared: float = 1.0) -> Measured:
    return Measured(latency_s, TileCosts(lines, lines, lines, shared, blocks, threads))


PROGRAMS = [
    measured(1.0, lines=10.0, blocks=4),
    measured(2.0, lines=20.0, blocks=4, threads=64),  # dearer and slower than the first: right
    measured(1.5, lines=5.0, blocks=8),  # 40 lines, as the first
    measured(1.04, lines=90.0, blocks=4),  # within 5 % of the first
]


def test_pairs_are_counted_by_what_they_have_in_common() -> None:
    found = ordered([PROGRAMS])
    # 2.0 s to 1.0 s: 80 to 40 lines; 2.0 to 1.5: 80 to 40; 2.0 to 1.04: 80 to 360; 1.5 to 1.04: 40 to 360;
    # 1.5 to 1.0 has equal lines.
    assert found["any"]["lines"] == {"pairs": 4, "right": 2}
    assert found["blocks"]["lines"] == {"pairs": 2, "right": 1}
    assert found["threads"]["lines"] == {"pairs": 0, "right": 0}
    # Requests of all blocks, which only the number of blocks changes: 8 of them are slower than 4, twice.
    assert found["any"]["shared"] == {"pairs": 3, "right": 2}


def test_programs_have_the_blocks_and_threads_that_fill_their_output() -> None:
    programs = next(found for found in programs_of(DATASETS[0]) if found)
    assert all(one.costs.blocks * one.costs.threads >= 32 and one.latency_s > 0 for one in programs)
