"""Templates as starts of a search, and as a design space."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from foretune.compiler.described_task import described_task
from foretune.compiler.replay import trace_to_json
from foretune.compiler.tvm_compat import design_spaces, make_tune_context, parse_target
from foretune.dataset.hardware.target_hardware import target_hardware
from foretune.inference.database.tuning_database import TuningDatabase
from foretune.inference.reuse.donors import Donor, NearestPrograms
from foretune.inference.reuse.similarity import loops_of
from foretune.inference.search.config import OneShotConfig, OneShotConfigError
from foretune.inference.spaces.chosen import TemplateSpace
from foretune.inference.spaces.stock import StockSpace
from foretune.inference.starts.adapted import ProgramAdapter
from foretune.inference.starts.configured import asked_starts
from foretune.inference.starts.templates import TemplateStarts
from tvm.target import Target

from tests.support.contractions import Convolution, Product

pytestmark = pytest.mark.cpu

TARGET = parse_target("llvm")


def test_a_task_begins_with_its_most_promising_templates() -> None:
    task = described_task(Product(32, 64, 64, epilogue="relu").module(), "dense", 1)
    source = TemplateStarts(TARGET, target_hardware(TARGET, measured=False), 3)
    starts = source.starts(task)
    assert len({start.trace for start in starts}) == 3
    assert all(start.latency_s is None for start in starts)


def test_a_task_that_no_template_fits_has_no_starts() -> None:
    source = TemplateStarts(TARGET, target_hardware(TARGET, measured=False), 3)
    assert source.starts(described_task(Product(32, 67, 64).module(), "dense", 1)) == []
    server = Target({"kind": "llvm", "mcpu": "sapphirerapids", "num-cores": 2})
    source = TemplateStarts(server, target_hardware(TARGET, measured=False), 3)
    assert source.starts(described_task(Product(4, 16, 2**17, "uint8").module(), "deep", 1)) == []


def test_templates_are_an_option_of_a_search(tmp_path: Path) -> None:
    hardware = target_hardware(TARGET, measured=False)
    database = TuningDatabase(tmp_path, TARGET, hardware)
    assert len(asked_starts(OneShotConfig(templates=2), TARGET, hardware, database)) == 1
    assert asked_starts(OneShotConfig(templates=0), TARGET, hardware, database) == []
    task = described_task(Product(32, 64, 64).module(), "dense", 1)
    (measured,) = asked_starts(OneShotConfig(templates=2), TARGET, hardware, database)
    assert [start.alone for start in measured.starts(task)] == [False, False]
    (first, _) = measured.starts(task)
    unmeasured = OneShotConfig(templates=2, measure=False, rounds=1)
    (predicted,) = asked_starts(unmeasured, TARGET, hardware, database)
    assert predicted.starts(task) == [replace(first, alone=True)]
    with pytest.raises(OneShotConfigError, match=r"search\.templates=-1"):
        OneShotConfig(templates=-1)
    with pytest.raises(OneShotConfigError, match=r"search\.template_margin=-0\.1"):
        OneShotConfig(template_margin=-0.1)


def test_register_tiles_are_measured_where_programs_run_here(tmp_path: Path) -> None:
    hardware = target_hardware(TARGET, measured=False)
    database = TuningDatabase(tmp_path, TARGET, hardware)
    for here, config, profiled in (
        (True, OneShotConfig(), True),
        (False, OneShotConfig(), False),
        (True, OneShotConfig(tile_profile=False), False),
    ):
        (source,) = asked_starts(config, TARGET, hardware, database, here=here, alone=suppress)
        assert isinstance(source, TemplateStarts)
        assert (source._profiler is not None) is profiled
        assert source._profiler is None or source._profiler._alone is suppress


def test_a_design_space_of_templates_needs_an_instruction() -> None:
    target = Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})
    module = Product(32, 64, 64, "bfloat16").module()
    context = make_tune_context(module, target, seed=0, space=TemplateSpace().generator(target))
    with pytest.raises(RuntimeError, match=r"target=x86-64-v3.*amx-tile\+amx-bf16"):
        context.generate_design_space()


def test_templates_are_a_design_space() -> None:
    module = Convolution(14, 32, 64, kernel=3, padding=1, epilogue="relu").module()
    context = make_tune_context(module, TARGET, seed=0, space=TemplateSpace().generator(TARGET))
    spaces = design_spaces(context, "conv")
    assert len(spaces) >= 4
    assert all(space.trace.decisions for space in spaces)


def test_another_task_takes_over_what_the_search_found_but_no_template() -> None:
    source, child = (described_task(Product(rows, 64, 64).module(), "dense", 1) for rows in (32, 64))
    (template,) = TemplateStarts(TARGET, target_hardware(TARGET, measured=False), 1).starts(source)
    context = make_tune_context(source.mod, TARGET, seed=0)
    searched = trace_to_json(design_spaces(context, "dense")[0].trace)
    adapter = ProgramAdapter(TARGET, StockSpace(None))
    assert adapter.fits(source, searched, child)
    assert not adapter.fits(source, template.trace, child)
    choose = NearestPrograms(adapter, loops_of, adapter.fits)
    programs = Donor(source, {template.trace: 1.0, f"{template.trace} ": 2.0, searched: 3.0})
    assert [of.trace for _, of in choose(child, programs, [])] == [searched]
