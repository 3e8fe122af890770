"""Drafting: a search over decisions that finds what its model likes, within limits, and only programs."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from foretune.compiler.operators import Conv2d, Dense
from foretune.compiler.structure import DRAFT_VERSION
from foretune.compiler.structure.input_locations import InputLocation, input_locations
from foretune.compiler.structure.nest import Nest
from foretune.compiler.structure.space import SketchSpace
from foretune.compiler.task import Task, count_flops
from foretune.compiler.tvm_compat import as_task_module, make_tune_context, parse_target
from foretune.dataset.features import FEATURE_VERSION
from foretune.dataset.features.draft_vector import DRAFT_DIM
from foretune.dataset.features.table import draft_table
from foretune.dataset.features.vectors import TASK_DIM
from foretune.dataset.hardware import HARDWARE_DIM
from foretune.inference.strategies.draft.drafter import Drafter, verified
from foretune.inference.strategies.draft.drafts import Draft, DraftRequest, DraftRequestError
from foretune.inference.strategies.draft.model import DraftModel
from foretune.inference.strategies.draft.population import Population
from foretune.inference.surrogate.embedding import EMBEDDING_DIM
from foretune.inference.surrogate.shared import own_surrogate
from foretune.models.architectures.cost_model import FeatureTensors, Predictor
from foretune.models.architectures.draft import DraftCostModel
from foretune.models.architectures.ensemble import EnsembleCostModel
from foretune.models.architectures.registry import (
    ModelConfig,
    ModelConfigError,
    build_model,
    feature_version_of,
)
from foretune.models.scaling.normaliser import FeatureDims, Normaliser
from foretune.models.scaling.target import TargetConfig
from support.drafts import CPU, StandInRater, drafter_of, matmul, matmul_trace

SMALL = DraftRequest(population=128, generations=2, keep=12)


def untrained(members: int = 1, lcb_coefficient: float = 0.0) -> DraftModel:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(64, TASK_DIM + DRAFT_DIM)).astype(np.float32)
    table = draft_table(vectors, np.ones((64, HARDWARE_DIM), np.float32))
    torch.manual_seed(0)
    networks = [DraftCostModel(FeatureDims.of(table), width=16) for _ in range(members)]
    network = networks[0] if members == 1 else EnsembleCostModel(networks)
    predictor = Predictor(Normaliser.fit(table, np.arange(64)), network, TargetConfig())
    return DraftModel(SimpleNamespace(predictor=predictor), CPU, lcb_coefficient)


@pytest.fixture(scope="module")
def model() -> DraftModel:
    """An untrained model: whatever it prefers, the search has to find."""
    return untrained()


@pytest.fixture(scope="module")
def task() -> Task:
    module = as_task_module(Dense(rows=16, in_features=64, out_features=32).prim_func())
    return Task("dense", module, 1, "operator", "dense", {}, count_flops(module))


def traces(drafts) -> list[str]:
    return [draft.trace for draft in drafts]


def population(limits=None) -> Population:
    """Candidates whose score is the innermost extent of the columns."""
    space = SketchSpace.from_traces([matmul_trace()], matmul())
    return Population(space, lambda values: values[:, 7].astype(np.float32), limits)


def test_a_population_takes_each_candidate_once():
    here, rng = population(), np.random.default_rng(0)
    drawn = here.sample(50, rng)
    assert len(drawn) == 50
    here.add(drawn)
    here.add(drawn)
    assert len(here.scores) == 50
    children = here.children(40, 0.7, rng)
    here.add(children)
    assert len(here.scores) == 50 + len(children)
    assert here.scores[50:].mean() > here.scores[:50].mean()  # they are those of the best


def test_a_population_starts_from_traces_of_its_sketch():
    here = population()
    (mine,) = here.space.traces(here.space.choices(np.array([[2, 1, 2, 2, 1, 2, 1, 8, 8, 4, 2]])))
    here.add_traces([mine, mine.replace("SSRSRS", "SRS"), mine.replace("[2,1,2,2]", "[3,1,2,2]")])
    assert here.scores.tolist() == [8]
    assert here.traces(np.array([0])) == [mine]


def test_neighbours_differ_in_one_decision():
    here = population()
    rows = np.array([[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1], [1, 1, 1, 1]], dtype=np.int32)
    here.add(rows)
    assert here.neighbours(0, [1, 2, 3]) == 1
    assert here.neighbours(3, []) == 0


def test_an_empty_population_has_no_children():
    assert len(population().children(5, 0.5, np.random.default_rng(0))) == 0


def test_drafts_are_the_best_rated_programs(model, task):
    target = parse_target({"kind": "llvm", "num-cores": 2})
    context = make_tune_context(task.mod, target, seed=0)
    drafter = Drafter(task, target, model, context)
    together = drafter.draft(replace(SMALL, vectorised_share=0))
    guided = [draft.score for draft in together[:-1]]  # the last is drawn at random
    assert guided == sorted(guided, reverse=True)
    drafts = drafter.draft(SMALL)
    assert len(drafts) == len({draft.trace for draft in drafts}) == 12
    rated = drafter.candidates_drafted
    assert rated > 128
    nonsense = Draft("[[],[[9,1]]]", 0.0, np.zeros(DRAFT_DIM, np.float32))
    rejected = Counter()
    programs = list(verified(context, [*drafts, nonsense, drafts[0]], rejected))
    assert [trace for trace, _ in programs] == [draft.trace for draft in drafts]
    assert rejected == {"trace does not apply": 1, "duplicate": 1}
    assert traces(drafter.draft(SMALL)) == traces(drafts)
    assert drafter.candidates_drafted == rated  # the same once more
    known = [draft.trace for draft in drafts[:5]]
    again = drafter.draft(SMALL, parents=known, known=known)
    assert len(again) == 12
    assert not {draft.trace for draft in again} & set(known)


def test_more_generations_find_what_rates_higher(model, task):
    drafter = drafter_of(task, parse_target("llvm"), model)
    best = [
        drafter.draft(DraftRequest(population=128, generations=generations, keep=1))[0].score
        for generations in (0, 6)
    ]
    assert best[1] > best[0]


def test_a_cautious_model_takes_off_what_its_members_disagree_on():
    structure, task = matmul(), np.zeros(TASK_DIM, dtype=np.float32)
    space = SketchSpace.from_traces([matmul_trace()], structure)
    values = space.values(space.sample(5, np.random.default_rng(0)))
    bold, cautious = (
        untrained(2, lcb_coefficient).rater(space.sketch, structure, task) for lcb_coefficient in (0.0, 2.0)
    )
    batch = draft_table(bold.vectors(values), np.tile(CPU.features(), (5, 1))).batch()
    inputs = FeatureTensors.of(bold._predictor.normaliser.batch(batch))
    with torch.no_grad():
        one, two = (member.eval()(inputs).numpy() for member in bold._predictor.model.members)
    np.testing.assert_allclose(bold(values), (one + two) / 2, rtol=1e-4)
    # The standard deviation of two is half their distance.
    np.testing.assert_allclose(cautious(values), (one + two) / 2 - np.abs(one - two), rtol=1e-4)


def test_measurements_correct_what_is_drafted_next(model, task):
    """Candidates near a fast program go first, whatever their scores."""
    drafter = drafter_of(task, parse_target({"kind": "llvm", "num-cores": 2}), model)
    config = replace(SMALL, vectorised_share=0, random_share=0.0)
    first = drafter.draft(config)
    best, worst = first[0], first[-1]
    surrogate = own_surrogate()
    surrogate.learn([best, worst], [1.0, 1e-3])
    plain = drafter.draft(config, [best.trace, worst.trace])
    taught = drafter.draft(config, [best.trace, worst.trace], surrogate=surrogate)
    assert best.trace in traces(plain) and best.trace not in traces(taught)
    assert worst.trace in traces(taught)[:3]
    # Their scores stay those of the model.
    (again,) = (draft for draft in taught if draft.trace == worst.trace)
    assert again.score == pytest.approx(worst.score)


def test_candidates_are_rated_by_their_traces(model, task):
    drafter = drafter_of(task, parse_target("llvm"), model)
    drafts = drafter.draft(SMALL)
    rated = drafter.rated([drafts[2].trace, "[[],[]]", drafts[0].trace])
    assert traces(rated) == [drafts[2].trace, drafts[0].trace]
    assert [draft.score for draft in rated] == pytest.approx([drafts[2].score, drafts[0].score])
    np.testing.assert_array_equal(rated[0].embedding, drafts[2].embedding)
    assert drafts[0].embedding.shape == (EMBEDDING_DIM,)


class ScalarOnly:
    """Stands in for a DraftModel that rates programs the lower the longer their innermost loop is."""

    def rater(self, sketch, structure, task):
        return StandInRater(lambda values: -Nest.of(sketch, values).extents[-1])


@pytest.mark.parametrize(("share", "vectorised"), [(0.0, 0), (0.25, 3), (0.5, 6), (1.0, 12)])
def test_vectorised_programs_evolve_apart_from_what_a_model_prefers(task, share, vectorised):
    drafter = drafter_of(task, parse_target("llvm"), ScalarOnly())
    config = replace(SMALL, generations=6, random_share=0.0, vectorised_share=share)
    drafts = drafter.draft(config)
    assert len(drafts) == len({draft.trace for draft in drafts}) == 12
    # The score is minus the innermost extent: 4 lanes are the least that count.
    assert [draft.score <= -4 for draft in drafts] == [False] * (12 - vectorised) + [True] * vectorised


class Placing:
    """Stands in for a DraftModel that likes inputs to be computed at one place, wherever the others are."""

    def __init__(self, place: InputLocation) -> None:
        self.place = place

    def rater(self, sketch, structure, task):
        return StandInRater(
            lambda values: (input_locations(Nest.of(sketch, values)) == self.place).astype(np.float32)
        )


def place_of_inputs(drafter, draft) -> InputLocation:
    for space in drafter.spaces:
        if (values := space.sketch.values_in(draft.trace)) is not None:
            return InputLocation(input_locations(Nest.of(space.sketch, np.array([values])))[0])
    raise AssertionError(draft.trace)


@pytest.fixture(scope="module")
def padded() -> Task:
    convolution = Conv2d(batch=1, in_channels=16, height=10, width=10, out_channels=16, kernel=3, padding=1)
    module = as_task_module(convolution.prim_func())
    return Task("conv2d", module, 1, "operator", "conv2d", {}, count_flops(module))


@pytest.mark.parametrize("liked", InputLocation)
@pytest.mark.parametrize(("share", "each"), [(0.0, 0), (0.35, 2), (0.5, 3)])
def test_inputs_are_also_computed_where_a_model_would_not(padded, liked, share, each):
    drafter = drafter_of(padded, parse_target("llvm"), Placing(liked))
    config = replace(SMALL, generations=6, random_share=0.0, compute_location_share=share)
    drafts = drafter.draft(config)
    assert len(drafts) == len({draft.trace for draft in drafts}) == 12
    others = [place for place in InputLocation if place != liked]
    placed = [place_of_inputs(drafter, draft) for draft in drafts]
    assert placed == [liked] * (12 - 2 * each) + [place for place in others for _ in range(each)]


def test_a_task_without_inputs_to_place_has_no_candidates_elsewhere(model, task):
    some, none = (
        drafter_of(task, parse_target("llvm"), model).draft(replace(SMALL, compute_location_share=share))
        for share in (0.5, 0.0)
    )
    assert traces(some) == traces(none)


def test_a_task_without_vectors_is_drafted_all_the_same():
    """Its innermost loop has three iterations."""
    module = as_task_module(Dense(rows=32, in_features=64, out_features=3).prim_func())
    task = Task("dense", module, 1, "operator", "dense", {}, count_flops(module))
    drafts = drafter_of(task, parse_target("llvm"), ScalarOnly()).draft(SMALL)
    assert len(drafts) == 12


def test_drafts_for_a_gpu_keep_its_limits(model, task):
    target = parse_target("nvidia/nvidia-a100")
    context = make_tune_context(task.mod, target, seed=0)
    drafts = Drafter(task, target, model, context).draft(SMALL)
    assert len(list(verified(context, drafts))) == len(drafts) == 12


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"population": 0}, "draft.population=0"),
        ({"keep": 0}, "draft.keep=0"),
        ({"neighbours": 0}, "draft.neighbours=0"),
        ({"generations": -1}, "draft.generations=-1"),
        ({"random_share": 1.5}, "draft.random_share=1.5"),
        ({"mutation_probability": -0.1}, "draft.mutation_probability=-0.1"),
        ({"vectorised_share": 2}, "draft.vectorised_share=2"),
        ({"compute_location_share": -1}, "draft.compute_location_share=-1"),
    ],
)
def test_settings_that_cannot_be(setting, message):
    with pytest.raises(DraftRequestError, match=message):
        DraftRequest(**{"population": 8, "generations": 1, "keep": 4, **setting})


def test_the_network_looks_at_task_and_hardware_alone():
    dims = FeatureDims(stores=1, decisions=1, task=6, hardware=2)
    network = DraftCostModel(dims, width=8, layers=1).eval()
    task_vectors, hardware = torch.randn(3, 6), torch.randn(3, 2)

    def features(fill):
        mask = torch.zeros(3, 1, dtype=torch.bool)
        return FeatureTensors(
            torch.full((3, 1, 1), fill), mask, torch.full((3, 1, 1), fill), mask, task_vectors, hardware
        )

    torch.testing.assert_close(network(features(0.0)), network(features(5.0)))
    assert network(features(0.0)).shape == (3,)


def test_the_model_says_which_features_it_reads():
    assert feature_version_of("draft") == DRAFT_VERSION
    assert feature_version_of("transformer") == FEATURE_VERSION
    with pytest.raises(ModelConfigError, match="layers=0"):
        build_model(ModelConfig("draft", {"layers": 0}), FeatureDims(1, 1, 4, 2))
