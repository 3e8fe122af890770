"""The zoo's table, its crawl and the prior over it: worked probabilities, draws outside it, marginals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from foretune.dataset.operators import (
    BatchMatmul,
    Conv2d,
    Dense,
    DepthwiseConv2d,
    OperatorSettings,
    SettingsError,
)
from foretune.dataset.prior import CHAINS, Prior
from foretune.dataset.zoo_crawl import (
    NetworkFactory,
    crawl,
    evaluation_networks,
    log_operators,
    pytorchcv_networks,
    transformers_networks,
)
from foretune.dataset.zoo_table import ZooRow, ZooTableError, common_shares, read_zoo_table, write_zoo_table
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn


def row(op: OperatorSettings, networks: int = 1, evaluation: tuple[str, ...] = ()) -> ZooRow:
    names = ("a", "b", "c")[: min(networks, 3)]
    return ZooRow(op, calls=networks, networks=networks, examples=names, evaluation=evaluation)


def dense(rows: int, in_features: int, out_features: int) -> Dense:
    return Dense(rows=rows, in_features=in_features, out_features=out_features)


TOY = [row(dense(1, 10, 100), 3), row(dense(1, 20, 200)), row(dense(2, 10, 300), 4)]


@pytest.fixture(scope="module")
def zoo() -> list[ZooRow]:
    return read_zoo_table()


def test_probability_by_hand() -> None:
    prior = Prior(TOY)
    # rows: N(1) = 4 of 8. in_features given rows=1: two rows with two values, so w = 2 / (2 + 2) = 1/2;
    # N(10 | 1) = 3 of 4, and of all 7 of 8. out_features given (1, 10): one row, one value, w = 1/2, share 1;
    # given in_features=10: two rows, two values, w = 1/2, N(100 | 10) = 3 of 7; of all 3 of 8.
    in_features = 1 / 2 * 3 / 4 + 1 / 2 * 7 / 8
    out_features = 1 / 2 * 1 + 1 / 2 * (1 / 2 * 3 / 7 + 1 / 2 * 3 / 8)
    assert prior.probability(dense(1, 10, 100)) == pytest.approx(1 / 2 * in_features * out_features)


def test_without_smoothing_it_is_the_chain_of_the_paper() -> None:
    prior = Prior(TOY, smoothing=0)
    assert prior.probability(dense(1, 10, 100)) == pytest.approx(3 / 8)
    assert prior.probability(dense(1, 20, 200)) == pytest.approx(1 / 8)
    assert prior.probability(dense(2, 10, 100)) == 0
    rng = np.random.default_rng(0)
    assert {prior.sample("dense", rng) for _ in range(200)} == {r.settings for r in TOY}


@given(
    shapes=st.lists(
        st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 9)),
        min_size=1, max_size=8, unique_by=lambda shape: shape[:3],
    ),
    smoothing=st.floats(0, 10),
)  # fmt: skip
@settings(deadline=None, max_examples=40)
def test_probabilities_add_up_to_one(shapes: list[tuple[int, int, int, int]], smoothing: float) -> None:
    prior = Prior([row(dense(*shape[:3]), shape[3]) for shape in shapes], smoothing)
    every = [dense(a, b, c) for a in (1, 2, 3) for b in (1, 2, 3) for c in (1, 2, 3)]
    assert sum(prior.probability(op) for op in every) == pytest.approx(1)


def test_draws_follow_the_probabilities() -> None:
    prior, rng, n = Prior(TOY), np.random.default_rng(1), 8000
    drawn = Counter(prior.sample("dense", rng) for _ in range(n))
    assert len(drawn) == 12  # every combination of 2 x 2 x 3 values
    for op, count in drawn.items():
        p = prior.probability(op)
        assert abs(count / n - p) < 5 * (p * (1 - p) / n) ** 0.5, op


def test_rows_only_of_evaluation_networks_do_not_count() -> None:
    unseen = ZooRow(dense(5, 5, 5), calls=0, networks=0, examples=(), evaluation=("resnet18",))
    assert Prior([*TOY, unseen]).probability(dense(5, 5, 5)) == 0


def test_impossible_settings_are_drawn_again() -> None:
    wide = Conv2d(batch=1, in_channels=8, height=8, width=8, out_channels=8, kernel=7)
    tiny = Conv2d(batch=1, in_channels=8, height=2, width=2, out_channels=8, kernel=1)
    prior, rng = Prior([row(wide), row(tiny)]), np.random.default_rng(0)
    drawn = {(op.kernel[0], op.height) for op in (prior.sample("conv2d", rng) for _ in range(300))}
    assert drawn == {(7, 8), (1, 2), (1, 8)}


@pytest.mark.parametrize("operator", CHAINS)
def test_a_fifth_or_more_of_the_draws_are_outside_the_table(operator: str, zoo: list[ZooRow]) -> None:
    table = {r.settings for r in zoo}
    prior, rng = Prior(zoo), np.random.default_rng(0)
    outside = np.mean([prior.sample(operator, rng) not in table for _ in range(2000)])
    assert 0.18 < outside < 0.6


@pytest.mark.parametrize("operator", CHAINS)
def test_marginals_stay_close_to_the_table(operator: str, zoo: list[ZooRow]) -> None:
    rows = [r for r in zoo if r.settings.operator == operator and r.networks]
    prior, rng, n = Prior(zoo), np.random.default_rng(0), 4000
    drawn = [prior.sample(operator, rng) for _ in range(n)]
    for knob in CHAINS[operator]:
        table: Counter[tuple[object, ...]] = Counter()
        for r in rows:
            table[tuple(getattr(r.settings, name) for name in knob.fields)] += r.networks
        sampled = Counter(tuple(getattr(op, name) for name in knob.fields) for op in drawn)
        total = sum(table.values())
        distance = sum(abs(table[v] / total - sampled[v] / n) for v in table | sampled) / 2
        # The expected distance of n draws from the table itself, all knobs else exact.
        noise = sum((c / total / n * 2 / np.pi) ** 0.5 for c in table.values()) / 2
        assert distance < 0.06 + noise, knob.fields


def test_common_windows_are_drawn_often(zoo: list[ZooRow]) -> None:
    """What the prior is for: a uniform draw of seven sizes would give these two 2 times in 7."""
    prior, rng = Prior(zoo), np.random.default_rng(0)
    kernels = Counter(prior.sample("conv2d", rng).kernel for _ in range(1000))
    assert kernels[(1, 1)] + kernels[(3, 3)] > 800


def test_prior_names_what_is_missing() -> None:
    prior = Prior(TOY)
    with pytest.raises(SettingsError, match=r"operator='pool': use one of conv2d"):
        prior.sample("pool", np.random.default_rng(0))
    with pytest.raises(SettingsError, match=r"operator=conv2d: the table has none; it has dense"):
        prior.sample("conv2d", np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"smoothing=-1: must be at least 0"):
        Prior(TOY, smoothing=-1)


def test_table_round_trip(tmp_path: Path) -> None:
    rows = [
        row(
            Conv2d(batch=1, in_channels=3, height=9, width=7, out_channels=4, kernel=(3, 1), padding=(1, 0)),
            2,
        ),
        row(DepthwiseConv2d(batch=1, in_channels=8, height=5, width=5, kernel=5), 5, ("resnet18",)),
        row(BatchMatmul(batch=2, rows=3, inner=4, columns=5)),
        *TOY,
    ]
    write_zoo_table(rows, tmp_path / "table.csv")
    assert read_zoo_table(tmp_path / "table.csv") == rows


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("operator,", "op,", "its columns are not operator, "),
        ("dense,,", "dense,7,", r"line 2: dense: no setting batch"),
        (",3,3,", ",3,4,", r"line 2: calls=3, networks=4: each network calls"),
        (",10,", ",ten,", r"line 2: invalid literal"),
    ],
)
def test_a_spoilt_table_is_named(old: str, new: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    write_zoo_table(TOY, path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ZooTableError, match=message):
        read_zoo_table(path)


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(ZooTableError, match=r"none.csv: no such file; write it again with"):
        read_zoo_table(tmp_path / "none.csv")


def test_common_shares_by_hand() -> None:
    rows = [
        row(dense(1, 1, 1), 2, ("n",)),
        ZooRow(dense(2, 2, 2), 0, 0, (), ("n", "m")),
        row(dense(3, 3, 3), 1, ("n",)),
        row(dense(4, 4, 4)),
    ]
    assert common_shares(rows) == {"n": pytest.approx(2 / 3), "m": 0}


class Small(nn.Module):
    """A layer of each kind, and some that no settings class describes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, (3, 1), stride=2, padding=(1, 0))
        self.depthwise = nn.Conv2d(8, 8, 3, dilation=2, groups=8)
        self.grouped = nn.Conv2d(8, 8, 1, groups=2)
        self.up = nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.linear = nn.Linear(8, 5)
        self.plain = nn.Linear(5, 6, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.up(self.grouped(self.depthwise(self.conv(x)))).flatten(2)  # [1, 8, 72]
        rows = x.transpose(1, 2).contiguous()
        return self.plain(self.linear(rows)).transpose(1, 2) @ rows


def small() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return Small(), (torch.empty(1, 3, 20, 14),)


def test_operators_of_a_network() -> None:
    log = log_operators(small)
    assert log.skipped == {"grouped convolution": 1, "transposed, 1-D or 3-D convolution": 1}
    # 20 x 14 becomes (20 + 2 - 3) // 2 + 1 = 10 by (14 - 1) // 2 + 1 = 7; the dilated kernel spans 5, which
    # leaves 6 x 3; the transposed convolution doubles it to 12 x 6 = 72 positions.
    assert log.calls == {
        Conv2d(
            batch=1, in_channels=3, height=20, width=14, out_channels=8, kernel=(3, 1), stride=2,
            padding=(1, 0),
        ): 1,
        DepthwiseConv2d(batch=1, in_channels=8, height=10, width=7, kernel=3, dilation=2): 1,
        dense(72, 8, 5): 1,
        dense(72, 5, 6): 1,
        BatchMatmul(batch=1, rows=6, inner=72, columns=8): 1,
    }  # fmt: skip


def networks() -> Iterator[tuple[str, NetworkFactory]]:
    def broken() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
        return nn.Linear(3, 4), (torch.empty(1, 5),)

    def two_linear() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
        return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 9)), (torch.empty(2, 4),)

    yield "first", two_linear
    yield "second", two_linear
    yield "resnet18_wd2", two_linear
    yield "first_svhn", two_linear
    yield "broken", broken


def test_crawl_counts_calls_and_networks() -> None:
    def evaluated() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
        return nn.Sequential(nn.Linear(4, 9), nn.Linear(9, 1)), (torch.empty(2, 4),)

    found = crawl(networks(), [("tested", evaluated)])
    names = ("first", "second")
    assert found.rows == [
        ZooRow(dense(2, 4, 4), calls=4, networks=2, examples=names, evaluation=()),
        ZooRow(dense(2, 4, 9), calls=2, networks=2, examples=names, evaluation=("tested",)),
        ZooRow(dense(2, 9, 1), calls=0, networks=0, examples=(), evaluation=("tested",)),
    ]
    assert found.networks == 2
    assert list(found.failed) == ["broken"]
    assert found.failed["broken"].startswith("RuntimeError: ")


def test_pytorchcv_gives_networks_and_no_helpers() -> None:
    pytest.importorskip("pytorchcv")
    factories = dict(pytorchcv_networks())
    assert len(factories) > 700
    assert "conv1x1_block" not in factories
    log = log_operators(factories["vgg11"])
    first = Conv2d(batch=1, in_channels=3, height=224, width=224, out_channels=64, kernel=3, padding=1)
    assert log.calls[first] == 1
    assert log.calls[dense(1, 25088, 4096)] == 1  # 512 channels of 7 x 7
    assert sum(log.calls.values()) == 11


def test_transformers_give_dense_and_batch_matmul() -> None:
    pytest.importorskip("transformers")
    found = dict(transformers_networks())
    log = log_operators(found["bert_tiny_len128"])
    # Two layers of query, key, value and output; two heads of 64 over 128 tokens.
    assert log.calls[dense(128, 128, 128)] == 8
    assert log.calls[BatchMatmul(batch=2, rows=128, inner=64, columns=128)] == 2
    assert "bert_base_len128" not in found


def test_the_table_marks_every_operator_of_the_evaluation_networks(zoo: list[ZooRow]) -> None:
    pytest.importorskip("pytorchcv")
    marked = {r.settings: r.evaluation for r in zoo}
    for name, factory in evaluation_networks():
        calls = log_operators(factory).calls
        assert calls
        assert all(name in marked[op] for op in calls)
