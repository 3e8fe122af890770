"""Embeddings of candidates: by their loops, or by their decisions where the loops cannot be read."""

from __future__ import annotations

import numpy as np
import pytest
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.structure.read_traces import SketchReader
from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.sampling.programs import RandomSampler, SamplerSetting
from foretune.inference.surrogate.embedding import EMBEDDING_DIM, CandidateEmbedder
from foretune.inference.surrogate.residual import ResidualModel
from support.drafts import CPU

TARGET = parse_target({"kind": "llvm", "num-cores": 1})
DENSE = to_task(Dense(rows=8, in_features=64, out_features=32))


def candidates_of(task: Task, count: int = 6) -> list:
    return [
        candidate
        for _, candidate in RandomSampler(SamplerSetting(task, TARGET, per_round=count, seed=0)).propose()
    ]


@pytest.fixture(scope="module")
def candidates() -> list:
    return candidates_of(DENSE)


def test_candidates_are_told_apart_by_their_loops_and_equal_ones_are_not(candidates):
    embeddings = CandidateEmbedder(DENSE.mod, CPU)([*candidates, candidates[0]])
    assert embeddings.shape == (len(candidates) + 1, EMBEDDING_DIM)
    np.testing.assert_array_equal(embeddings[0], embeddings[-1])
    assert len(np.unique(embeddings, axis=0)) == len(candidates)


def test_a_place_does_not_depend_on_its_company(candidates):
    embedder = CandidateEmbedder(DENSE.mod, CPU)
    together = embedder(candidates)
    apart = np.concatenate([embedder([candidate]) for candidate in candidates])
    np.testing.assert_array_equal(together, apart)


def test_where_the_device_is_not_known_it_is_the_decisions(candidates):
    embeddings = CandidateEmbedder(DENSE.mod, None)([*candidates, candidates[0]])
    assert embeddings.shape[1] != EMBEDDING_DIM
    np.testing.assert_array_equal(embeddings[0], embeddings[-1])
    assert len(np.unique(embeddings, axis=0)) == len(candidates)


@pytest.fixture
def unreadable(monkeypatch) -> None:
    """No trace is of a sketch that drafting knows."""

    monkeypatch.setattr(SketchReader, "group_by_sketch", lambda reader, traces: iter(()))


@pytest.mark.usefixtures("unreadable")
def test_where_the_first_candidates_cannot_be_read_it_stays_with_decisions(candidates, monkeypatch):
    embedder, decisions = CandidateEmbedder(DENSE.mod, CPU), CandidateEmbedder(DENSE.mod, None)(candidates)
    np.testing.assert_array_equal(embedder(candidates), decisions)
    monkeypatch.undo()
    np.testing.assert_array_equal(embedder(candidates), decisions)


def test_none_of_them_decide_nothing(candidates, request):
    embedder = CandidateEmbedder(DENSE.mod, CPU)
    assert len(embedder([])) == 0
    request.getfixturevalue("unreadable")
    assert embedder(candidates).shape[1] != EMBEDDING_DIM


def test_what_cannot_be_read_later_keeps_the_width(candidates, request):
    embedder = CandidateEmbedder(DENSE.mod, CPU)
    embedder(candidates)
    request.getfixturevalue("unreadable")
    assert embedder(candidates).shape == (len(candidates), EMBEDDING_DIM)


def test_what_was_measured_tells_of_what_is_alike_and_little_of_what_is_not():
    embeddings = np.array([[0.0], [1.0], [10.0]])
    model = ResidualModel.fit(embeddings, np.ones(3), np.array([1e-3, 1e-3, 4e-3]))
    near, far = model.posterior(np.array([[0.1], [400.0]]), np.ones(2)).deviation
    assert near < 0.5 * far
