"""Losses against values worked by hand, and refused settings."""

import math

import pytest
import torch
from foretune.models.losses.losses import (
    LossConfig,
    LossError,
    gaussian_nll,
    lambda_rank_loss,
    rank_loss,
    squared_error,
)
from hypothesis import given
from hypothesis import strategies as st


def softplus(x):
    return math.log1p(math.exp(x))


def test_rank_loss_by_hand():
    output, target = torch.tensor([0.0, 1.0, 5.0]), torch.tensor([1.0, 0.5, 0.8])
    # one group of rows 0 and 1: row 0 should be above by gap 0.5, and is 1 below
    group = torch.tensor([0, 0, 1])
    assert rank_loss(output, target, group).item() == pytest.approx(softplus(1))
    # one group: pairs (0,1) gap .5 diff -1; (0,2) gap .2 diff -5; (2,1) gap .3 diff 4
    expected = 0.5 * softplus(1) + 0.2 * softplus(5) + 0.3 * softplus(-4)
    assert rank_loss(output, target, torch.zeros(3)).item() == pytest.approx(expected / 1.0, rel=1e-5)


def test_lambda_rank_loss_by_hand():
    # By outputs the ranks are 3, 2, 1; the gains 2^t - 1 are 3, 1, 0.
    output, target = torch.tensor([0.1, 0.2, 0.5]), torch.tensor([2.0, 1.0, 0.0])
    best_dcg = 3 / math.log2(2) + 1 / math.log2(3)
    d = [1 / math.log2(4), 1 / math.log2(3), 1 / math.log2(2)]
    expected = (
        (3 - 1) / best_dcg * abs(d[0] - d[1]) * softplus(0.1)
        + (3 - 0) / best_dcg * abs(d[0] - d[2]) * softplus(0.4)
        + (1 - 0) / best_dcg * abs(d[1] - d[2]) * softplus(0.3)
    )
    assert lambda_rank_loss(output, target, torch.zeros(3)).item() == pytest.approx(expected, rel=1e-5)
    # sigma makes the logistic steeper
    steep = (
        (3 - 1) / best_dcg * abs(d[0] - d[1]) * softplus(1)
        + (3 - 0) / best_dcg * abs(d[0] - d[2]) * softplus(4)
        + (1 - 0) / best_dcg * abs(d[1] - d[2]) * softplus(3)
    )
    assert lambda_rank_loss(output, target, torch.zeros(3), sigma=10).item() == pytest.approx(steep, rel=1e-5)


def test_lambda_rank_is_the_mean_over_groups_with_a_pair():
    output, target = torch.tensor([0.1, 0.2, 0.5]), torch.tensor([2.0, 1.0, 0.0])
    once = lambda_rank_loss(output, target, torch.zeros(3))
    # the group twice, and groups without pairs to order: a single row, and equal targets
    more = torch.tensor([7.0, 1.0, 3.0])
    both = lambda_rank_loss(
        torch.cat([output, output, more]),
        torch.cat([target, target, torch.tensor([1.0, 0.5, 0.5])]),
        torch.tensor([0, 0, 0, 1, 1, 1, 2, 3, 3]),
    )
    assert both.item() == pytest.approx(once.item(), rel=1e-5)


def test_ties_at_the_top_count_one_group():
    output, target = torch.tensor([0.0, 0.0, 0.0]), torch.tensor([1.0, 1.0, 0.0])
    best_dcg = 1 + 1 / math.log2(3)
    d = [1, 1 / math.log2(3), 1 / 2]  # ties of outputs are ranked by row
    expected = ((d[0] - d[2]) + (d[1] - d[2])) / best_dcg * math.log(2)
    assert lambda_rank_loss(output, target, torch.zeros(3)).item() == pytest.approx(expected, rel=1e-5)


def test_lambda_rank_pulls_most_at_the_top():
    target = torch.tensor([1.0, 0.9, 0.2, 0.1])
    output = torch.zeros(4, requires_grad=True)
    lambda_rank_loss(output, target, torch.zeros(4)).backward()
    pull = -output.grad
    assert pull[0] > pull[1] and pull[3] < 0
    assert pull[0].abs() == pull.abs().max()


@pytest.mark.parametrize("loss", [rank_loss, lambda_rank_loss])
def test_without_rivals_a_ranking_loss_is_zero_with_gradients(loss):
    output = torch.tensor([0.3, 0.1], requires_grad=True)
    made = loss(output, torch.tensor([1.0, 0.5]), torch.tensor([0, 1]))
    made.backward()
    assert made.item() == 0 and output.grad.tolist() == [0, 0]


# Tenths, so that a shift makes no ties.
ROW = st.tuples(st.floats(0, 1), st.integers(-30, 30).map(lambda tenths: tenths / 10), st.integers(0, 2))


@given(st.lists(ROW, min_size=1, max_size=12))
def test_ranking_losses_ignore_a_shift_and_the_order_of_rows(rows):
    target, output, group = (torch.tensor(column) for column in zip(*rows, strict=True))
    for loss in (rank_loss, lambda_rank_loss):
        made = loss(output, target, group)
        assert torch.isfinite(made) and made >= 0
        assert torch.allclose(loss(output + 1, target, group), made, atol=1e-4)
    assert torch.allclose(
        rank_loss(output.flip(0), target.flip(0), group.flip(0)), rank_loss(output, target, group), atol=1e-5
    )


def test_the_error_that_a_task_shares_is_weighted():
    output, target = torch.tensor([3.0, 1.0, 2.0]), torch.tensor([0.0, 0.0, 1.0])
    group = torch.tensor([7, 7, 4])
    # Errors 3 and 1 of one task, which share 2, and 1 of another.
    for offset, expected in ((1, 11 / 3), (0, 2 / 3), (0.5, 2 / 3 + 0.5 * 3)):
        assert squared_error(output, target, group, offset).item() == pytest.approx(expected)
        assert LossConfig(offset=offset)(output, target, group).item() == pytest.approx(expected)


def test_gaussian_likelihood_by_hand():
    mean, target = torch.tensor([0.0, 1.0]), torch.tensor([2.0, 1.0])
    log_variance = torch.tensor([math.log(4.0), 0.0])
    # (ln 4 + 4 / 4) / 2 and (0 + 0) / 2; with beta 0.5 the first weighs sqrt(4) times as much
    first = (math.log(4) + 1) / 2
    assert gaussian_nll(mean, log_variance, target).item() == pytest.approx(first / 2)
    assert gaussian_nll(mean, log_variance, target, beta=0.5).item() == pytest.approx(2 * first / 2)


def test_the_variance_of_least_loss_is_the_squared_error():
    for beta in (0.0, 0.5):
        log_variance = torch.tensor([math.log(0.25)], requires_grad=True)
        gaussian_nll(torch.tensor([1.0]), log_variance, torch.tensor([1.5]), beta).backward()
        assert log_variance.grad.item() == pytest.approx(0, abs=1e-6)


def test_losses_add_up_by_their_weights():
    output, target, group = torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.5]), torch.zeros(2)
    mse, rank = (1 + 0.25) / 2, softplus(1)
    assert LossConfig(mse=2, rank=0)(output, target, group).item() == pytest.approx(2 * mse)
    assert LossConfig(mse=0, rank=1)(output, target, group).item() == pytest.approx(rank)
    assert LossConfig(mse=1, rank=3)(output, target, group).item() == pytest.approx(mse + 3 * rank)
    assert LossConfig(mse=0, l1=2)(output, target, group).item() == pytest.approx(2 * 0.75)
    # |1| and |0.5| beyond delta 0.1: 0.1 * (|d| - 0.05)
    huber = LossConfig(mse=0, huber=1, huber_delta=0.1)(output, target, group).item()
    assert huber == pytest.approx((0.1 * 0.95 + 0.1 * 0.45) / 2)
    steep = LossConfig(mse=0, rank=1, sigma=2)(output, target, group).item()
    assert steep == pytest.approx(softplus(2))
    lambda_rank = LossConfig(mse=0, lambda_rank=2, sigma=3)(output, target, group).item()
    assert lambda_rank == pytest.approx(2 * lambda_rank_loss(output, target, group, 3).item())


def test_columns_have_their_own_targets():
    # columns: score, core, log variance; the share of the core is off by 0.5 in one of two rows
    columns = torch.tensor([[0.0, 0.5, 0.0], [1.0, 0.3, 0.0]])
    target, shares, group = torch.tensor([1.0, 1.0]), torch.tensor([[0.0], [0.3]]), torch.zeros(2)
    names = ("score", "core", "log_variance")
    core, nll, mse = 0.25 / 2, (1 / 2 + 0) / 2, 1 / 2
    default = LossConfig(mse=1, nll=1, nll_beta=0)
    assert default.of_columns(columns, names, target, shares, group).item() == pytest.approx(mse + nll + core)
    tenth = LossConfig(mse=0, nll=1, nll_beta=0, outputs={"core": 0.1})
    assert tenth.of_columns(columns, names, target, shares, group).item() == pytest.approx(nll + 0.1 * core)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mse": 0}, "loss.mse=0, .*set all to 0 or more, and at least one above 0"),
        ({"rank": -1}, "loss.rank=-1"),
        ({"sigma": 0}, "loss.sigma=0"),
        ({"offset": -1}, "loss.offset=-1: set it to 0 or more"),
        ({"huber_delta": -1}, "loss.huber_delta=-1"),
        ({"nll_beta": 2}, "loss.nll_beta=2"),
        ({"outputs": {"score": 1.0}}, "to memory and core; the primary output has loss.mse"),
        ({"outputs": {"core": -1.0}}, "weights of 0 or more"),
    ],
)
def test_weights_that_make_no_loss_are_refused(arguments, message):
    with pytest.raises(LossError, match=message):
        LossConfig(**arguments)


@pytest.mark.parametrize(
    ("arguments", "columns", "message"),
    [
        ({"nll": 1}, ("score",), "variance=false: either needs the other"),
        ({}, ("score", "log_variance"), "variance=true: either needs the other"),
    ],
)
def test_a_loss_has_to_fit_the_model(arguments, columns, message):
    with pytest.raises(LossError, match=message):
        LossConfig(**arguments).check(columns)
    LossConfig().check(("score", "memory"))
    with pytest.raises(LossError, match=r"needs model\.arguments\.variance=true"):
        LossConfig(nll=1)(torch.zeros(1), torch.zeros(1), torch.zeros(1))
