"""SVG fragments of figures: several on one page keep apart, and ticks say where they stand."""

import re

import pytest
from foretune.figures import canvas, fragment, log_axis


def drawn(prefix):
    with canvas(3, 2) as figure:
        axes = figure.subplots()
        axes.plot([1, 2], [3, 4], marker="o")
        return fragment(figure, prefix, "a line")


@pytest.mark.parametrize("prefix", ["task", "2c255348cce7", "0-spearman"])
def test_ids_and_what_refers_to_them_carry_the_prefix(prefix):
    text = drawn(prefix)
    ids = re.findall(r'\bid="([^"]+)"', text)
    used = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text)
    assert len(ids) == len(set(ids)) > 0 and all(name.startswith(f"{prefix}-") for name in ids)
    assert used and {href or url for href, url in used} <= set(ids)


def test_fragments_of_one_page_share_no_id():
    ids = [set(re.findall(r'\bid="([^"]+)"', drawn(prefix))) for prefix in ("1", "2")]
    assert not ids[0] & ids[1]


@pytest.mark.parametrize(
    "low, high", [(1.8, 4.6), (38, 43.6), (0.11, 0.2), (0.86, 1.2), (5, 250), (95, 9500), (0.001, 4550)]
)
def test_ticks_of_a_logarithmic_axis_say_their_value(low, high):
    with canvas(3, 2) as figure:
        axes = figure.subplots()
        axes.plot([1, 2], [low, high])
        log_axis(axes, "y")
        ticks = [tick for tick in axes.get_yticks() if low <= tick <= high]
        written = [axes.yaxis.get_major_formatter()(tick) for tick in ticks]
    assert 2 <= len(ticks) <= 7
    assert [float(text.replace(",", "")) for text in written] == pytest.approx(ticks)
    assert all(not text.endswith("0") for text in written if "." in text)
