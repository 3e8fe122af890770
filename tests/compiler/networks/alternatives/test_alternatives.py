"""Pieces of a network, and the network with alternatives in their place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import tvm
from foretune.compiler.networks import load_network, task_names, to_relax
from foretune.compiler.networks.alternatives.alternatives import (
    Alternative,
    Arguments,
    Piece,
    Run,
    call_counts,
    merged_offers,
    offered_tasks,
    pieces,
    places,
    with_alternatives,
)
from foretune.compiler.networks.loading import Network
from foretune.compiler.task import ALTERNATIVE
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.deploy.compile import compile_network
from tvm import relax, te, topi

CPU = parse_target({"kind": "llvm", "num-cores": 2})


@pytest.fixture(scope="module")
def network() -> Network:
    return load_network("support.networks:Threes", inputs=[[1, 3, 6, 6]])


@pytest.fixture(scope="module")
def mod(network: Network) -> tvm.IRModule:
    return to_relax(network, CPU)


def negated(piece: Piece, kind: str = "negated twice") -> Alternative:
    """The piece's last function on the negative of its data, negated by a function of its own before it."""
    shape = [int(extent) for extent in piece.functions[-1].params[0].shape]
    data = te.placeholder(shape, name="data")
    negative = te.create_prim_func([data, topi.negative(data)]).without_attr("global_symbol")

    def compute(arguments: Sequence[Arguments], run: Run) -> relax.Expr:
        given = arguments[0][0]
        for number, call in enumerate(arguments):
            given = run(0, [run(0, [given])])
            given = run(1 + number, [given, *call[1:]])
        return given

    names = ("negative", *(f"{name}_again" for name in piece.names))
    return Alternative(kind, piece, (negative, *piece.functions), names, compute)


def piece_of(mod: tvm.IRModule, *names: str) -> Piece:
    (found,) = [piece for piece in pieces(mod, len(names)) if piece.names == names]
    return found


def test_pieces_are_calls_by_workload(mod: tvm.IRModule) -> None:
    # The layout of the image, the stem, twice the same convolution, the one with the residual, the layout.
    assert [len(piece.sites) for piece in pieces(mod)] == [1, 1, 2, 1, 1]
    assert [piece.workloads[0] for piece in pieces(mod) if piece.names[0] in task_names(mod).values()] == [
        *task_names(mod)
    ]


def test_calls_in_a_row_are_a_piece_where_nothing_else_reads_between_them(mod: tvm.IRModule) -> None:
    first, stem, body, residual, last = (piece.names[0] for piece in pieces(mod))
    # What the stem computes is read by the body and again by the residual.
    assert [piece.names for piece in pieces(mod, 2)] == [
        (first, stem),
        (body, body),
        (body, residual),
        (residual, last),
    ]
    assert [piece.names for piece in pieces(mod, 4)] == [(body, body, residual, last)]
    assert pieces(mod, 5) == []


@pytest.mark.parametrize(("equal", "pairs"), [(3, 1), (4, 2), (5, 2)])
def test_places_of_a_piece_have_no_call_in_common(equal: int, pairs: int) -> None:
    network = load_network("support.networks:Threes", inputs=[[1, 3, 6, 6]], kwargs={"equal": equal})
    mod = to_relax(network, CPU)
    body = pieces(mod)[2]
    assert len(body.sites) == equal
    assert len(piece_of(mod, *2 * body.names).sites) == pairs


@pytest.mark.parametrize("length", [1, 2])
def test_a_network_with_an_alternative_computes_the_same(
    network: Network, mod: tvm.IRModule, length: int
) -> None:
    body, residual = (piece.names[0] for piece in pieces(mod)[2:4])
    piece = piece_of(mod, *(body, residual)[-length:] if length == 2 else (body,))
    changed = with_alternatives(mod, [negated(piece)])
    calls = 2 * len(piece.sites) * length
    before, after = call_counts(mod), call_counts(changed)
    assert after.total() == before.total() + calls
    assert "negative" in {var.name_hint for var in changed.get_global_vars()}
    (reference,) = network.reference_outputs()
    (output,) = compile_network(changed, CPU)(*network.inputs)
    np.testing.assert_allclose(output, reference, atol=1e-5)


def test_a_function_that_nothing_calls_any_more_goes(mod: tvm.IRModule) -> None:
    body = pieces(mod)[2]
    other = with_alternatives(mod, [Alternative("renamed", body, body.functions, ("renamed",), _same)])
    assert call_counts(other) == call_counts(mod)
    # Structurally equal functions are one, so that the network keeps its name.
    assert body.names[0] in {var.name_hint for var in other.get_global_vars()}
    changed = with_alternatives(mod, [negated(piece_of(mod, *2 * body.names))])
    assert call_counts(changed)[body.workloads[0]] == 2


def _same(arguments: Sequence[Arguments], run: Run) -> relax.Expr:
    return run(0, arguments[0])


def test_a_place_goes_to_the_first_alternative(mod: tvm.IRModule) -> None:
    body, residual = (piece.names[0] for piece in pieces(mod)[2:4])
    single, chain = negated(piece_of(mod, body)), negated(piece_of(mod, body, residual))
    assert [len(sites) for sites in places([chain, single])] == [1, 1]
    assert [len(sites) for sites in places([single, chain])] == [2, 0]
    assert with_alternatives(mod, []) is mod
    changed = with_alternatives(mod, [single, chain])
    assert call_counts(changed)[single.offer.tasks[0].workload_hash] == 4


def test_an_offer_has_tasks_outside_the_network(mod: tvm.IRModule) -> None:
    body = pieces(mod)[2]
    offer = negated(body).offer
    assert (offer.name, offer.calls) == (f"negated twice of {body.names[0]}", 2)
    assert (offer.replaces, offer.replaced) == (body.workloads, body.names)
    assert [(task.weight, task.source) for task in offer.tasks] == [(0, ALTERNATIVE)] * 2
    assert [task.name for task in offer.tasks] == ["negative", f"{body.names[0]}_again"]
    # The second one is the replaced task itself, which the network has.
    assert offered_tasks([], [offer, offer]) == list(offer.tasks)
    assert offered_tasks(offer.tasks[1:], [offer]) == [offer.tasks[0]]


def test_offers_of_several_networks_count_all_places(mod: tvm.IRModule) -> None:
    body, residual = (negated(piece).offer for piece in pieces(mod)[2:4])
    merged = merged_offers([[body], [body, residual]])
    assert [(offer.name, offer.calls) for offer in merged] == [(body.name, 4), (residual.name, 1)]
