"""Tests of the overview of a dataset and of its datasheet."""

import json
import math
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from foretune.dataset.hardware import Hardware
from foretune.dataset.records.datasheet.content import limits, sections
from foretune.dataset.records.datasheet.overview import read_overview
from foretune.dataset.records.datasheet.plots import plots
from foretune.dataset.records.datasheet.write import LABEL_NOISE_FILE, LabelNoiseError, write_datasheet
from foretune.dataset.records.schema import FailureKind
from foretune.dataset.records.store import RecordStore, StoreError
from foretune.figures import CSS_VARIABLES
from support.records import HARDWARE, record, task_row

NOISE = {
    "records": 200,
    "median_relative_difference": 0.031,
    "median_hours_between": 1.2,
    "hardware": "Some CPU",
    "content_hash": "of before",
}


@pytest.fixture
def store(tmp_path):
    """Task t0 has programs of 1, 2 and 50 ms and a failure, t1 has none, t2 has one of 5 us."""
    store = RecordStore(tmp_path / "set")
    records = [
        replace(record(0, (1.5e-3, 1e-3, 1.1e-3)), probe_ratio=1.0, moved_bytes=1e6),
        replace(record(1, (2e-3, 2e-3)), probe_ratio=1.3, disturbed=True, timestamp=7201.5),
        replace(record(2, (50e-3,)), cut_short=True, sampler="random"),
        record(3, (), FailureKind.BUILD_ERROR),
        replace(record(4, (5e-6,), task="t2"), simulated=True),
    ]
    tasks = [
        task_row(),
        task_row("t1"),
        replace(task_row("t2"), operator="<script>", settings='{"dtype": "float16"}'),
    ]
    with store.writing():
        store.put_hardware(HARDWARE)
        store.append_tasks(tasks)
        store.append_records(records)
    return store


def test_the_overview_has_hand_worked_figures(store):
    overview = read_overview(store)
    records = overview.records
    assert records.latency_s.tolist() == [1e-3, 2e-3, 50e-3, math.inf, 5e-6]
    assert records.score.tolist() == pytest.approx([1.0, 0.5, 0.02, 0.0, 1.0])
    assert records.spread.tolist()[:2] == pytest.approx([0.1, 0.0])
    assert records.spread.isna().tolist() == [False, False, True, True, True]
    assert records.gflops.tolist() == pytest.approx([1.0, 0.5, 0.02, 0.0, 200.0])  # 1 MFLOP per task
    tasks = overview.tasks
    assert tasks.records.tolist() == [4, 0, 1]
    assert tasks.valid.tolist() == [3, 0, 1]
    assert tasks.best_s.tolist() == [1e-3, math.inf, 5e-6]
    assert tasks.dtype.tolist() == ["", "", "float16"]
    assert len(overview.valid) == 4


def test_scores_do_not_mix_devices(store):
    other = Hardware("Other CPU", "cpu", 4, 3.0, 512, 32768, 524288, 33554432, 300.0, 40.0)
    with store.writing():
        store.append_records([replace(record(9, (4e-3,)), hardware_id=other.hardware_id)])
    assert read_overview(store).records.score.tolist()[-1] == 1.0


def cells(overview, title):
    (section,) = (section for section in sections(overview) if section.title == title)
    return [list(row) for row in section.rows]


def test_the_sections_count_by_operator_sampler_and_kind(store):
    overview = read_overview(store)
    assert cells(overview, "Operators") == [
        ["conv2d", "2", "4", "3", "0.500", "1.00"],
        ["<script>", "1", "1", "1", "1.00", "200"],
    ]
    assert cells(overview, "Samplers")[1] == ["random", "1", "1", "0.0200", "3"]
    assert cells(overview, "Failures") == [["build_error", "1", "20%"]]
    assert cells(overview, "Devices")[0][:3] == [HARDWARE.hardware_id, "Some CPU", "2"]


def test_the_limits_follow_from_the_records(store):
    told = "\n".join(limits(read_overview(store)))
    assert "1 record is simulated" in told
    assert "3 of 3 tasks have fewer than 10" in told
    assert "3 records have no noise probe" in told
    assert "3 of 4 valid records have no performance counters" in told
    assert "another day" in told
    assert "another day" not in "\n".join(limits(read_overview(store), NOISE))
    assert "earlier version" in "\n".join(limits(read_overview(store), NOISE))


@pytest.mark.parametrize(
    ("samplers", "told"),
    [
        (("random", "random"), ()),
        (("evolutionary/xgboost", "annealing/random"), ("Programs were not sampled uniformly",)),
        (("evolutionary/xgboost", "random"), ("Programs of 1 record were not sampled uniformly",)),
        (("database", "database"), ("All records come from a database",)),
        (("database", "import"), ("1 record comes from a database", "1 record was imported")),
    ],
)
def test_what_is_said_of_sampling_follows_the_samplers(tmp_path, samplers, told):
    store = RecordStore(tmp_path / "set")
    with store.writing():
        store.append_tasks([task_row()])
        store.append_records([replace(record(n), sampler=sampler) for n, sampler in enumerate(samplers)])
    about = ("sampled uniformly", "from a database", "imported")
    found = [line for line in limits(read_overview(store)) if any(words in line for words in about)]
    assert len(found) == len(told)
    assert all(line.startswith(start) for line, start in zip(found, told, strict=True))


class Page(HTMLParser):
    """Parser that collects tags with their nesting, ids, and references to other files."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.tags = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag != "meta":
            self.open.append(tag)
        for name, value in attributes:
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href") and not value.startswith("#"):
                self.links.append(value)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_needs_nothing_else_and_escapes_names(store):
    path = write_datasheet(store)
    text = path.with_suffix(".html").read_text()
    page = Page(text)
    assert page.open == []
    assert page.links == []
    assert len(page.ids) == len(set(page.ids))
    drawn = plots(read_overview(store))
    assert len(drawn) == 7
    assert page.tags.count("svg") == sum(len(plot.panels) for plot in drawn) == 8  # scores of two operators
    assert "script" not in page.tags
    assert "&lt;script&gt;" in text
    assert not any(colour in text for colour in CSS_VARIABLES)


def rates_plot(store):
    (plot,) = (plot for plot in plots(read_overview(store)) if plot.title == "Rates of the best programs")
    return plot


def test_a_peak_below_a_measured_rate_is_said_to_be_too_low_and_not_drawn(store):
    """The device's peak is 100 GFLOP/s; 1 MFLOP in 8 us is 125 GFLOP/s."""
    quiet = rates_plot(store)
    assert quiet.caption.endswith("a dashed line marks the float32 peak of the device, 100.")
    assert "stroke-dasharray" in quiet.panels[0]
    # a program of float16 may be faster
    assert not any("too low" in line for line in limits(read_overview(store)))
    with store.writing():
        store.append_tasks([replace(task_row("t3"), settings='{"dtype": "float32"}')])
        store.append_records([record(5, (8e-6,), task="t3")])
    disturbed = rates_plot(store)
    assert disturbed.caption.endswith(
        "The measured peak of Some CPU, 100 GFLOP/s, is too low, since 1 task runs faster: its measurement "
        "was disturbed, or PyTorch's matrix product is slow on the device."
    )
    assert "stroke-dasharray" not in disturbed.panels[0]
    overview = read_overview(store)
    assert cells(overview, "Devices")[0][3] == "100, too low"
    assert any("which are computed with it, may exceed 1" in line for line in limits(overview))


def test_the_markdown_tells_the_same(store):
    path = write_datasheet(store)
    assert path == store.folder / "datasheet.md"
    text = path.read_text()
    for part in (
        "# Datasheet of set",
        "| Records | 5 | 4 valid, 1 failed |",
        "| Counted | 1 | records whose memory traffic",
        "## Known limits",
        "| build_error | 1 |",
    ):
        assert part in text


def test_the_datasheet_changes_nothing_in_the_dataset(store):
    before = store.content_hash()
    first = write_datasheet(store).read_text()
    assert write_datasheet(store).read_text() == first
    assert store.content_hash() == before
    assert store.check_shards() == []


def test_label_noise_is_told_from_then_on(store, tmp_path):
    result = tmp_path / "noise.json"
    result.write_text(json.dumps(NOISE))
    assert "| Label noise | 3.1% |" in write_datasheet(store, label_noise=result).read_text()
    assert (store.folder / LABEL_NOISE_FILE).exists()
    assert "| Label noise | 3.1% |" in write_datasheet(store).read_text()


def test_label_noise_may_be_given_from_within_the_dataset(store):
    (store.folder / LABEL_NOISE_FILE).write_text(json.dumps(NOISE))
    text = write_datasheet(store, label_noise=store.folder / LABEL_NOISE_FILE).read_text()
    assert "| Label noise | 3.1% |" in text


@pytest.mark.parametrize("name", ["datasheet.md", "datasheet.html"])
def test_a_datasheet_that_cannot_be_written_is_named(store, name):
    (store.folder / name).mkdir()
    with pytest.raises(StoreError, match=f"{name}: could not be written"):
        write_datasheet(store)


@pytest.mark.parametrize("text", [None, "{", "[]", '{"records": 3}'])
def test_a_file_that_tells_no_label_noise_is_an_error(store, tmp_path, text):
    result = tmp_path / "noise.json"
    if text is not None:
        result.write_text(text)
    with pytest.raises(LabelNoiseError, match="label_noise="):
        write_datasheet(store, label_noise=result)
    assert not (store.folder / LABEL_NOISE_FILE).exists()


def test_a_dataset_without_records_has_a_datasheet(tmp_path):
    store = RecordStore(tmp_path / "empty")
    with store.writing():
        store.append_tasks([task_row()])
    text = write_datasheet(store).read_text()
    assert "| Records | 0 |" in text


def test_a_dataset_of_failures_alone_has_a_datasheet(tmp_path):
    store = RecordStore(tmp_path / "failed")
    with store.writing():
        store.append_tasks([task_row()])
        store.append_records([record(0, (), FailureKind.RUN_ERROR)])
    assert "| run_error | 1 | 100% |" in write_datasheet(store).read_text()
