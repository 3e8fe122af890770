"""The presets of `search=`: what composes is what the papers and the defaults say."""

from __future__ import annotations

from pathlib import Path

import foretune
import pytest
from foretune.compiler.networks import Lowering
from foretune.configuration import ConfigError, from_hydra
from foretune.dataset.sampling.programs import AnnealingConfig, EvolutionaryConfig
from foretune.inference.run.config import TuneConfig, TuneConfigError
from foretune.inference.run.network_set import NetworkSetError
from foretune.inference.search.config import OneShotConfig, OneShotConfigError, StopConfig
from foretune.inference.strategies.draft.config import DraftingConfig
from foretune.inference.strategies.registry import STRATEGIES
from support import composition

PRESETS = sorted(path.stem for path in (Path(foretune.__file__).parent / "conf" / "search").glob("*.yaml"))


def composed(*overrides: str) -> TuneConfig:
    return from_hydra(composition.composed("tune", *overrides), TuneConfig)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_composes_and_is_valid(preset: str) -> None:
    assert composed(f"search={preset}", "seed=7").search.seed == 7


def test_the_default_is_that_of_the_code() -> None:
    assert composed().search == OneShotConfig()
    assert composed().search.stop == StopConfig()
    assert composed().search.strategy == DraftingConfig()


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_has_a_file_of_its_settings_with_their_defaults(name: str) -> None:
    assert composed(f"search/strategy={name}").search == OneShotConfig(name)
    assert composed(f"search.strategy={name}").search == OneShotConfig(name)


def test_table_2_of_one_shot_tuner() -> None:
    genetic = composed("search=one_shot_tuner").search
    assert genetic.strategy == EvolutionaryConfig(
        population_size=512, generations=120, mutation_probability=0.1
    )
    annealing = composed("search=one_shot_tuner_annealing").search
    assert annealing.strategy == AnnealingConfig(chains=512, steps=160, early_stop=50)
    assert (genetic.rounds, genetic.top_k) == (annealing.rounds, annealing.top_k) == (1, 64)
    # A fixed K: no adaptive stop, no learning from measurements.
    assert genetic.stop.expected_improvement == annealing.stop.expected_improvement == 0.0
    assert not genetic.surrogate


def test_what_is_not_the_paper_drafts() -> None:
    for preset in ("default", "high_efficiency", "high_quality"):
        assert composed(f"search={preset}").search.strategy.name == "draft"
    assert composed("search=high_quality").search.strategy.keep > DraftingConfig().keep
    assert composed("search.strategy.checkpoint=null").search.strategy.checkpoint is None


def test_quality_goes_on_and_efficiency_measures_less() -> None:
    quality, efficiency, default = (
        composed(f"search={name}").search for name in ("high_quality", "high_efficiency", "default")
    )
    assert quality.extra_rounds > default.extra_rounds == 0
    assert efficiency.rounds < default.rounds < quality.rounds
    assert efficiency.top_k < default.top_k < quality.top_k


@pytest.mark.parametrize(
    ("rounds", "top_k", "rooms"),
    [(3, 24, [8, 8, 8]), (2, 5, [3, 2]), (3, 4, [2, 1, 1]), (1, 64, [64]), (10, 25, [3, 2] * 5)],
)
def test_all_rounds_together_measure_top_k(rounds: int, top_k: int, rooms: list[int]) -> None:
    config = OneShotConfig(rounds=rounds, top_k=top_k)
    assert [config.room(number) for number in range(rounds)] == rooms
    assert sum(rooms) == top_k
    assert config.room(rounds) == config.per_round == max(rooms)  # of extra rounds


def test_a_network_is_lowered_as_is_fastest_unless_told() -> None:
    assert composed().lowering == Lowering()
    assert composed("lowering.prepack=false").lowering == Lowering(prepack=False)
    with pytest.raises(ConfigError, match=r"lowering\.channels_last"):
        composed("lowering.channels_last=NHWC")


def test_only_what_runs_here_is_exported() -> None:
    assert composed().export is None
    with pytest.raises(TuneConfigError, match=r"export=net\.so: only what runs here is compiled"):
        composed("export=net.so", "executor=dry_run")


def test_lists_of_networks_and_batch_sizes_are_a_set() -> None:
    config = composed("network=[resnet50,mobilenetv2]", "batch=[1,16]", "export=out", "output=report")
    assert config.is_set
    names = [f"{name}-batch{size}" for name in ("resnet50", "mobilenetv2") for size in (1, 16)]
    assert [member.name for member in config.members] == names
    own = [config.of_member(member) for member in config.members]
    assert [(one.network, one.batch, one.is_set) for one in own] == [
        (name, size, False) for name in ("resnet50", "mobilenetv2") for size in (1, 16)
    ]
    assert [one.export for one in own] == [Path(f"out/{name}.so") for name in names]
    assert [one.output for one in own] == [Path(f"report/{name}") for name in names]
    assert not composed("network=[resnet50]", "batch=[16]").is_set
    assert composed("network=[resnet50]", "batch=[16]").members[0].batch == 16


def test_several_sequence_lengths_are_a_set() -> None:
    lengths = "inputs=[[{shape: [1,64], dtype: int64}], [{shape: [1,128], dtype: int64}]]"
    config = composed("network=bert_base", lengths)
    assert [member.name for member in config.members] == ["bert_base-1x64", "bert_base-1x128"]
    inputs = [config.of_member(member).network_arguments["inputs"] for member in config.members]
    assert inputs == [[{"shape": [1, length], "dtype": "int64"}] for length in (64, 128)]
    with pytest.raises(NetworkSetError, match=r"batch=\[1, 16\]: inputs= gives the shapes"):
        composed("network=bert_base", lengths, "batch=[1,16]")


@pytest.mark.parametrize("field", ["budget_s", "latency_target_s", "untuned_limit_s"])
def test_a_limit_in_seconds_is_positive_or_none(field: str) -> None:
    assert getattr(composed(f"{field}=null"), field) is None
    with pytest.raises(TuneConfigError, match=rf"{field}=0.*seconds over 0, or null"):
        composed(f"{field}=0.0")


@pytest.mark.parametrize(
    "setting", ["timing_repeats=0", "workers=0", "workers=-1", "seed=-1", "search.seed=-1"]
)
def test_a_count_or_a_seed_out_of_range_is_named(setting: str) -> None:
    with pytest.raises((TuneConfigError, OneShotConfigError), match=rf"{setting}: must be at least [01]"):
        composed(setting)


def test_schedules_are_either_required_or_searched_again() -> None:
    assert composed("require_database=true").require_database
    with pytest.raises(TuneConfigError, match=r"require_database=true retune=true: .*leave one out"):
        composed("require_database=true", "retune=true")


def test_executors_are_those_of_generation() -> None:
    assert composed("executor=dry_run").executor.kind == "dry_run"
    assert composed().executor.kind == "local"
    with pytest.raises(ConfigError, match="cuda_compilers"):
        composed("+executor.cuda_compilers=nvcc")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StopConfig(expected_improvement=-0.1), r"search\.stop\.expected_improvement=-0\.1"),
        (lambda: StopConfig(minimum=0), r"search\.stop\.minimum=0"),
        (lambda: StopConfig(batch=0), r"search\.stop\.batch=0"),
        (
            lambda: OneShotConfig(strategy="bayesian"),
            r"search\.strategy=bayesian: unknown; .* draft, evolutionary, annealing",
        ),
        (lambda: OneShotConfig(replay_factor=0), r"search\.replay_factor=0"),
        (lambda: OneShotConfig({"name": "draft", "keep": 0}), r"search\.strategy\.keep=0"),
        (lambda: OneShotConfig(overlap="some"), r"search\.overlap=some"),
        (lambda: OneShotConfig(processes=-1), r"search\.processes=-1"),
        (lambda: OneShotConfig(extra_rounds=-1), r"search\.extra_rounds=-1"),
        (lambda: OneShotConfig(min_latency_share=-0.1), r"search\.min_latency_share=-0\.1"),
        (lambda: OneShotConfig({"name": "annealing", "early_stop": 0}), r"search\.strategy\.early_stop=0"),
        (lambda: OneShotConfig({"name": "annealing", "steps": 0}), r"search\.strategy\.steps=0"),
        (
            lambda: OneShotConfig({"name": "annealing", "keep": 3}),
            r"search\.strategy\.keep: .*annealing has no",
        ),
        (
            lambda: OneShotConfig({"name": "annealing", "steps": "many"}),
            r"search\.strategy\.steps=many: must be a whole number",
        ),
    ],
)
def test_settings_that_cannot_be_are_named(make, message):
    with pytest.raises(OneShotConfigError, match=message):
        make()


@pytest.mark.parametrize(
    ("overrides", "in_use"),
    [
        ((), "auto"),
        (("search/strategy=evolutionary",), "auto"),
        (("search=high_efficiency",), "auto"),
        (("search=high_quality",), "off"),
        (("search=one_shot_tuner",), "off"),
        (("search=one_shot_tuner_annealing",), "off"),
        (("search=fasor",), "off"),
        (("search=fasor_high_quality",), "auto"),
        (("search=no_measurement",), "off"),
        (("search=short",), "off"),
        (("search=templates",), "off"),
        (("search/strategy=stock",), "off"),
        (("search/strategy=pool", "executor=replay", "executor.pool=pool"), "off"),
        (("search.reuse=paper",), "paper"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_reuse_applies_where_programs_are_searched_for_and_measured(
    overrides: tuple[str, ...], in_use: str
) -> None:
    assert composed(*overrides).search.reuse_in_use == in_use


@pytest.mark.parametrize(
    ("network", "folder"),
    [
        ("resnet18", "outputs/tune/resnet18"),
        ("nets:Net", "outputs/tune/Net"),
        ("/models/net.onnx", "outputs/tune/net"),
        ("../net.onnx", "outputs/tune/net"),
        ("net-batch16.onnx", "outputs/tune/net-batch16"),
    ],
)
def test_the_folder_of_a_report_is_named_after_the_network(network, folder):
    assert composed(f"network={network}").folder == Path(folder)
    assert composed(f"network={network}", "output=mine").folder == Path("mine")


def test_a_report_needs_a_folder(tmp_path):
    file = tmp_path / "net.onnx"
    file.touch()
    with pytest.raises(TuneConfigError, match=r"output=.*net.onnx: is a file; name a folder"):
        composed(f"output={file}")
