"""Messages between the tuner and search processes: what goes through JSON comes back."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from foretune.compiler.operators import Dense, to_task
from foretune.dataset.sampling.programs.counts import CandidateCounts
from foretune.inference.reuse.parent import ReuseParent
from foretune.inference.search.candidate import Candidate
from foretune.inference.search.loop import RoundBudget
from foretune.inference.workers.messages import RoundReply, RoundRequest, SiblingProgram

TASK = to_task(Dense(rows=8, in_features=64, out_features=32, epilogue="bias_relu"))


def through_json(message):
    return type(message).from_json(json.loads(json.dumps(message.to_json(), allow_nan=False)))


def test_a_request_survives_json():
    learned = {"ran": 1e-3, "failed": math.inf}
    sibling = SiblingProgram("other", Candidate("trace", 0.25, np.array([1.5, 2.0], np.float32)), 2e-3)
    request = RoundRequest(
        "key", RoundBudget(3, quick=True), learned, ("start",), "family", TASK, siblings=(sibling,)
    )
    again = through_json(request)
    assert (again.key, again.budget, again.learned) == ("key", RoundBudget(3, quick=True), learned)
    assert (again.starts, again.surrogate_group) == (("start",), "family")
    (told,) = again.siblings
    assert (told.workload, told.candidate.trace, told.candidate.score, told.latency_s) == (
        "other",
        "trace",
        0.25,
        2e-3,
    )
    np.testing.assert_array_equal(told.candidate.embedding, sibling.candidate.embedding)
    assert again.task.workload_hash == TASK.workload_hash
    assert (again.task.name, again.task.weight, again.task.flops) == (TASK.name, TASK.weight, TASK.flops)
    (parent,) = through_json(
        RoundRequest("key", RoundBudget(1), parents=(ReuseParent(TASK, "its trace"),))
    ).parents
    assert (parent.task.workload_hash, parent.trace) == (TASK.workload_hash, "its trace")
    assert through_json(RoundRequest("key", RoundBudget(1))) == RoundRequest("key", RoundBudget(1))


def test_a_reply_survives_json():
    embedding = np.array([1.00004, 2.0], np.float32)
    proposal = Candidate("trace", 0.5, embedding, is_start=True, record="record", module="module")
    counts = CandidateCounts(drafted=90, tried=5, proposed=3, rejected={"duplicate": 2})
    again = through_json(RoundReply((proposal,), 7, {"features": 0.5}, counts=counts))
    (found,) = again.proposals
    assert (found.trace, found.record, found.module, found.score) == ("trace", "record", "module", 0.5)
    assert found.is_start
    np.testing.assert_array_equal(found.embedding, np.array([1.0, 2.0], np.float32))  # four decimals
    assert (again.scored, again.stage_s, again.reason, again.counts) == (7, {"features": 0.5}, "", counts)
    assert through_json(RoundReply(nothing_to_tune=True)).reason == "nothing to tune"


@pytest.mark.parametrize(("text", "reason"), [("odd\nmore", "odd"), ("  ", "no message")])
def test_an_exception_of_a_process_is_a_reply(text, reason):
    reply = RoundReply.from_json({"error": text, "usable": True})
    assert reply.reason == f"the search failed: {reason}"
    assert reply.proposals == ()
