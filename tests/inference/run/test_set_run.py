"""A set of networks is tuned together, and each of its networks is tried by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from foretune.dataset.measure import ExecutorConfig
from foretune.inference.report.networks import networks_table
from foretune.inference.reuse.config import AutoConfig
from foretune.inference.run.config import TuneConfig, TuneConfigError
from foretune.inference.run.network_set import NetworkSetError
from foretune.inference.run.result import NetworkOutcome
from foretune.inference.run.result_file import load_result
from foretune.inference.search.config import OneShotConfig
from foretune.inference.tune import run
from rich.console import Console
from support.results import make_result
from support.tuning import ONE_RUN

EVOLUTION = {"name": "evolutionary", "population_size": 8, "generations": 0}
SHAPES = [[[1, 8, 6, 6]], [[2, 8, 6, 6]]]


def config(folder: Path, **changes):
    settings = {
        "network": "support.networks:Residual",
        "inputs": SHAPES,
        "output": folder / "report",
        "database": folder / "database",
        "checkpoint": None,
        "rivals": [],
        "timing_repeats": 1,
        "untuned_limit_s": 1e-9,
        "workers": 1,
        "measure": ONE_RUN,
        "search": OneShotConfig(EVOLUTION, processes=0, rounds=1, top_k=2, reuse="auto"),
    }
    return TuneConfig(**{**settings, **changes})


@pytest.mark.slow
def test_two_shapes_are_one_operator_set_and_a_network_that_fails_is_named(tmp_path):
    networks = ["support.networks:Residual", "support.networks:Nowhere"]
    settings = config(tmp_path, network=networks, inputs=SHAPES, export=tmp_path / "{name}.so")
    with pytest.raises(NetworkSetError, match=r"2 of 4 networks failed: Nowhere-1x8x6x6: .*Nowhere-2x8x6x6"):
        run(settings, Console(quiet=True))
    whole = load_result(tmp_path / "report" / "report.json")
    names = [f"{name}-{n}x8x6x6" for name in ("Residual", "Nowhere") for n in (1, 2)]
    assert [one.name for one in whole.networks] == names
    assert [bool(one.error) for one in whole.networks] == [False, False, True, True]
    for number, one in enumerate(whole.networks[:2], 1):
        assert one.outputs_match
        own = load_result(tmp_path / "report" / one.name / "report.json")
        # Nothing is searched again for a network of its own.
        assert not any(task.candidates_measured for task in own.tasks)
        assert {task.workload_hash for task in own.tasks} <= {task.workload_hash for task in whole.tasks}
        assert len(own.tasks) == one.tasks
        assert own.max_abs_difference <= own.tolerance
        assert (tmp_path / f"Residual-{number}x8x6x6.so").is_file()
    assert sum(task.weight for task in whole.tasks) == sum(
        task.weight
        for one in whole.networks[:2]
        for task in load_result(tmp_path / "report" / one.name / "report.json").tasks
    )
    # The convolutions of the second shape begin with programs of the first.
    assert any(task.parent for task in whole.tasks)
    assert "Residual-2x8x6x6" in (tmp_path / "report" / "report.html").read_text()


@pytest.mark.slow
def test_lengths_of_a_set_are_searched_together_and_the_second_measures_less(tmp_path):
    search = OneShotConfig(
        EVOLUTION,
        processes=0,
        rounds=2,
        top_k=8,
        reuse="auto",
        auto=AutoConfig(programs=2, starts=1, heavy_share=1.0),
    )
    settings = config(
        tmp_path,
        network="support.networks:Dense",
        inputs=[[[1, 64, 256]], [[1, 32, 256]]],
        search=search,
        executor=ExecutorConfig("dry_run"),
    )
    whole = run(settings, Console(quiet=True))
    assert [(one.name, one.error) for one in whole.networks] == [
        ("Dense-1x64x256", ""),
        ("Dense-1x32x256", ""),
    ]
    longer, shorter = (task for task in whole.tasks if task.flops > 1e6)
    assert (longer.parent_hash, shorter.parent_hash) == ("", longer.workload_hash)
    assert (longer.candidates_measured, shorter.candidates_measured) == (8, 2)


@pytest.mark.slow
def test_a_set_of_which_all_fail_says_why(tmp_path):
    settings = config(tmp_path, network=["nowhere_a:Net", "nowhere_b:Net"], inputs=[[1, 2]])
    with pytest.raises(NetworkSetError, match=r"2 of 2 networks failed: Net: .*nowhere_a.*; Net-2: "):
        run(settings, Console(quiet=True))


def test_what_a_set_cannot_have_is_one_clear_error(tmp_path):
    with pytest.raises(TuneConfigError, match=r"latency_target_s=1.0: several networks"):
        config(tmp_path, latency_target_s=1.0)
    with pytest.raises(TuneConfigError, match=r"kwargs: several networks"):
        config(tmp_path, network=["a:A", "b:B"], kwargs={"n": 1})
    with pytest.raises(NetworkSetError, match=r"export=net.so"):
        config(tmp_path, export=Path("net.so"))


def test_the_folder_of_a_set_is_named_after_its_networks(tmp_path):
    networks = ["resnet50", "mobilenetv2"]
    settings = config(tmp_path, network=networks, inputs=None, batch=[1, 16], output=None)
    assert settings.folder == Path("outputs/tune/resnet50-mobilenetv2")


def test_a_row_of_a_network_that_failed_has_its_reason():
    good = NetworkOutcome("a", 3, 0.002, "OpenVINO", 0.003, True)
    result = make_result(networks=[good, NetworkOutcome("b", 0, error="does not load")])
    assert networks_table(result).rows == [
        ["a", "3", "2.00 ms", "OpenVINO, 3.00 ms", "1.50x", "equal", ""],
        ["b", "-", "-", "-", "-", "-", "does not load"],
    ]
