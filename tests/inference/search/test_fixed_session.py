"""Tasks whose schedules leave nothing to decide: start candidates before them, each once."""

from __future__ import annotations

from foretune.compiler.replay import trace_to_json
from foretune.compiler.task import Task
from foretune.compiler.templates.cpu.programs import template_traces
from foretune.compiler.tvm_compat import as_task_module, parse_target
from foretune.inference.search.loop import RoundBudget
from foretune.inference.search.session import FixedSession
from tvm import te, topi

CPU = parse_target("llvm")


def transposition() -> Task:
    """A transposition behind a ReLU."""
    data = te.placeholder((3, 64, 48), "float32", name="data")
    func = te.create_prim_func([data, topi.transpose(topi.nn.relu(data), (0, 2, 1))])
    return Task(
        name="turned", mod=as_task_module(func), weight=1, source="operator", operator="elementwise",
        settings={}, flops=1,
    )  # fmt: skip


TASK = transposition()
STARTS = template_traces(TASK.mod, CPU, None, 3)


def test_starts_come_first_and_each_once() -> None:
    session = FixedSession(TASK, CPU)
    proposed = session.propose(RoundBudget(8), [*STARTS, STARTS[0], STARTS[0].replace("transpose", "other")])
    assert [one.is_start for one in proposed] == [True, True, True, False]
    assert len({one.trace for one in proposed}) == 4
    assert session.counts.tried == 6 and session.counts.proposed == 4
    assert sum(session.counts.rejected.values()) == 2
    assert session.propose(RoundBudget(8), STARTS) == []


def test_a_round_without_a_search_has_the_starts_alone() -> None:
    session = FixedSession(TASK, CPU)
    quick = RoundBudget(1, search=False)
    assert [one.is_start for one in session.propose(quick, STARTS[:1])] == [True]
    assert [one.is_start for one in session.propose(RoundBudget(8))] == [False]


def test_what_was_measured_before_is_left_out() -> None:
    session = FixedSession(TASK, CPU)
    known = session.propose(RoundBudget(8), STARTS)
    again = FixedSession(TASK, CPU)
    again.learn({one.trace: 1e-3 for one in known})
    assert again.propose(RoundBudget(8), STARTS) == []


def test_without_starts_the_schedules_of_the_task_are_proposed() -> None:
    session = FixedSession(TASK, CPU)
    (own,) = session.propose(RoundBudget(1, search=False))
    assert not own.is_start and trace_to_json(session.known.program(own.trace).sch.trace) == own.trace
