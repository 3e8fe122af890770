"""The zoo's table as a file: round trip, damage, and shapes in common with evaluation networks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from foretune.compiler.operators import (
    BatchMatmul,
    Conv1d,
    Conv2d,
    Conv3d,
    Dense,
    DepthwiseConv2d,
    OperatorSettings,
    Pool2d,
)
from foretune.dataset.records.task_shapes import shape_of
from foretune.dataset.sampling.zoo.table import (
    ZooRow,
    ZooTableError,
    common_shares,
    read_zoo_table,
    write_zoo_table,
)


def row(op: OperatorSettings, networks: int = 1, evaluation: tuple[str, ...] = ()) -> ZooRow:
    names = ("a", "b", "c")[: min(networks, 3)]
    return ZooRow(op, calls=networks, networks=networks, examples=names, evaluation=evaluation)


def dense(rows: int, in_features: int, out_features: int, epilogue: str = "none") -> Dense:
    return Dense(rows=rows, in_features=in_features, out_features=out_features, epilogue=epilogue)


TOY = [row(dense(1, 10, 100), 3), row(dense(1, 20, 200)), row(dense(2, 10, 300), 4)]


def test_table_round_trip(tmp_path: Path) -> None:
    rows = [
        row(
            Conv2d(batch=1, in_channels=3, height=9, width=7, out_channels=4, kernel=(3, 1), padding=(1, 0)),
            2,
        ),
        row(DepthwiseConv2d(batch=1, in_channels=8, height=5, width=5, kernel=5), 5, ("resnet18",)),
        row(BatchMatmul(batch=2, rows=3, inner=4, columns=5, transpose_right=True)),
        row(
            Conv1d(
                batch=1, in_channels=4, length=50, out_channels=6, kernel=5, groups=2, epilogue="bias_gelu"
            )
        ),
        row(Conv3d(batch=1, in_channels=3, depth=4, height=6, width=7, out_channels=5, kernel=(1, 3, 3))),
        row(Pool2d(batch=1, channels=4, height=6, width=6, kernel=2, stride=2, mode="avg")),
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
        (",10,", ",ten,", r"line 2: dense: in_features='ten': give a whole number"),
        (",10,", ",10y,", r"line 2: invalid literal"),
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
        ZooRow(dense(3, 3, 3, "bias"), 0, 0, (), ("n",)),
        row(dense(3, 3, 3, "bias_relu")),  # the same shape, whatever is fused behind it
        row(dense(4, 4, 4)),
    ]
    assert common_shares(rows) == {"n": pytest.approx(2 / 3), "m": 0}


def test_shapes_are_the_same_whatever_does_not_change_the_work() -> None:
    conv = Conv2d(batch=1, in_channels=3, height=9, width=7, out_channels=4, kernel=3)
    other = replace(conv, layout="NHWC", dtype="float16", epilogue="bias_relu")
    assert shape_of(other) == conv
    assert shape_of(replace(conv, batch=2)) != conv
    product = BatchMatmul(batch=2, rows=3, inner=4, columns=5)
    assert shape_of(replace(product, transpose_right=True)) == product
