"""Crawl: rows that count and rows that do not, missing zoos, and networks of the installed zoos."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from foretune.compiler.operators import BatchMatmul, Conv1d, Conv2d, Dense, TransposedConv1d
from foretune.dataset.sampling.zoo import crawl as zoo_crawl
from foretune.dataset.sampling.zoo.crawl import NOT_COUNTED, crawl, installed, marked
from foretune.dataset.sampling.zoo.networks import (
    evaluation_networks,
    pytorchcv_networks,
    timm_networks,
    torchvision_networks,
    transformers_networks,
)
from foretune.dataset.sampling.zoo.operator_log import NetworkFactory, log_operators
from foretune.dataset.sampling.zoo.table import ZooRow, read_zoo_table, write_zoo_table
from torch import nn


def dense(rows: int, in_features: int, out_features: int, epilogue: str = "bias") -> Dense:
    return Dense(rows=rows, in_features=in_features, out_features=out_features, epilogue=epilogue)


def stack(*widths: int) -> NetworkFactory:
    def build() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
        layers = [nn.Linear(a, b) for a, b in pairwise(widths)]
        return nn.Sequential(*layers), (torch.empty(2, widths[0]),)

    return build


def networks() -> Iterator[tuple[str, NetworkFactory]]:
    def broken() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
        return nn.Linear(3, 4), (torch.empty(1, 5),)

    yield "first", stack(4, 4, 4, 9)
    yield "second", stack(4, 4, 4, 9, 9)
    yield "first_of_another_zoo", stack(4, 4, 4, 9)
    yield "same_as_tested", stack(4, 9, 1)
    yield "resnet18_wd2", stack(4, 4)
    yield "first_svhn", stack(4, 5)
    yield "broken", broken


def test_crawl_counts_calls_and_networks() -> None:
    found = crawl(networks(), [("tested", stack(4, 9, 1))])
    names = ("first", "second")
    assert found.rows == [
        ZooRow(dense(2, 4, 4), calls=4, networks=2, examples=names, evaluation=()),
        ZooRow(dense(2, 4, 9), calls=2, networks=2, examples=names, evaluation=("tested",)),
        ZooRow(dense(2, 9, 9), calls=1, networks=1, examples=("second",), evaluation=()),
        ZooRow(dense(2, 9, 1), calls=0, networks=0, examples=(), evaluation=("tested",)),
    ]
    assert (found.networks, found.repeated) == (2, 2)
    assert list(found.failed) == ["broken"]
    assert found.failed["broken"].startswith("RuntimeError: ")


def test_other_evaluation_networks_are_marked_without_a_crawl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = crawl(networks(), [("tested", stack(4, 9, 1))]).rows
    names = ("first", "second")
    expected = [
        ZooRow(dense(2, 4, 4), calls=4, networks=2, examples=names, evaluation=("other",)),
        ZooRow(dense(2, 4, 9), calls=2, networks=2, examples=names, evaluation=()),
        ZooRow(dense(2, 9, 9), calls=1, networks=1, examples=("second",), evaluation=()),
        ZooRow(dense(2, 4, 7), calls=0, networks=0, examples=(), evaluation=("other",)),
    ]
    assert marked(rows, [("other", stack(4, 4, 7))]) == expected
    path = tmp_path / "table.csv"
    write_zoo_table(rows, path)
    monkeypatch.setattr(zoo_crawl, "evaluation_networks", lambda: iter([("other", stack(4, 4, 7))]))
    zoo_crawl.main(["--mark", "--output", str(path)])
    assert read_zoo_table(path) == expected


@pytest.mark.parametrize(
    ("name", "counted"),
    [
        ("resnet18", False), ("timm.seresnet18d", False), ("resnet180", True), ("resnet50", True),
        ("torchvision.mobilenet_v2", False), ("mobilenetv2b_w1", False), ("mobilenetv3_large_w1", True),
        ("transformers.BertModel", False), ("transformers.RobertaModel", True), ("bert_large_len64", True),
    ],
)  # fmt: skip
def test_variants_of_what_is_evaluated_do_not_count(name: str, counted: bool) -> None:
    assert (NOT_COUNTED.search(name) is None) == counted


def test_a_missing_zoo_is_reported_and_the_others_crawled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)  # what `import timm` meets where it is not installed
    zoos: dict[str, Any] = {"small": networks, "timm": timm_networks}
    monkeypatch.setattr(zoo_crawl, "ZOOS", zoos)
    monkeypatch.setattr(zoo_crawl, "evaluation_networks", lambda: iter([("tested", stack(4, 9, 1))]))
    zoo_crawl.main(["--output", str(tmp_path / "table.csv"), "--failures"])
    out = capsys.readouterr().out
    assert logging.root.manager.disable == logging.NOTSET
    assert "left out timm, which is not installed: " in out
    assert "4 operators of 2 networks" in out
    assert "broken: RuntimeError: " in out
    assert "50% of the operators of tested occur in other networks too" in out
    assert len(read_zoo_table(tmp_path / "table.csv")) == 4


def test_the_same_crawl_writes_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoo_crawl, "ZOOS", {"small": networks})
    monkeypatch.setattr(zoo_crawl, "evaluation_networks", lambda: iter([("tested", stack(4, 9, 1))]))
    for name in ("one.csv", "two.csv"):
        zoo_crawl.main(["--output", str(tmp_path / name)])
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()


def test_a_zoo_that_raises_on_import_is_missing() -> None:
    def gone() -> Iterator[tuple[str, NetworkFactory]]:
        raise ImportError("No module named 'gone'\nhint")
        yield

    found, missing = installed({"gone": gone, "small": networks})
    assert missing == {"gone": "No module named 'gone'"}
    assert len(list(found)) == 7


def test_pytorchcv_gives_networks_and_no_helpers() -> None:
    pytest.importorskip("pytorchcv")
    factories = dict(pytorchcv_networks())
    assert len(factories) > 700
    assert "conv1x1_block" not in factories
    log = log_operators(factories["vgg11"])
    first = Conv2d(
        batch=1, in_channels=3, height=224, width=224, out_channels=64, kernel=3, padding=1,
        epilogue="bias_relu",
    )  # fmt: skip
    assert log.calls[first] == 1
    assert log.calls[dense(1, 25088, 4096, "bias_relu")] == 1  # 512 channels of 7 x 7
    assert sum(s.operator in ("conv2d", "dense") for s in log.calls.elements()) == 11
    speech = log_operators(factories["quartznet5x5_en_ls"])
    assert any(isinstance(s, Conv1d) and s.groups > 1 for s in speech.calls)


def test_transformers_give_text_pictures_and_sound() -> None:
    pytest.importorskip("transformers")
    found = dict(transformers_networks())
    log = log_operators(found["bert_tiny_len128"])
    # Two layers of query, key, value; two heads of 64 over 128 tokens.
    assert log.calls[dense(128, 128, 128)] == 6
    assert log.calls[dense(128, 128, 128, "bias_add")] == 2
    scores = BatchMatmul(batch=2, rows=128, inner=64, columns=128, transpose_right=True)
    assert log.calls[scores] == 2
    assert "bert_base_len128" not in found
    sound = log_operators(found["hifigan_speecht5"])
    # Its first upsampling: 512 channels to 256, kernel 8, stride 4.
    first = TransposedConv1d(
        batch=1, in_channels=512, length=100, out_channels=256, kernel=8, stride=4, padding=2, epilogue="bias"
    )
    assert sound.calls[first] == 1


@pytest.mark.parametrize(
    ("zoo", "name", "operators"),
    [
        (torchvision_networks, "torchvision.r3d_18", {"conv3d", "dense"}),
        (torchvision_networks, "torchvision.retinanet_resnet50_fpn", {"conv2d", "pool2d"}),
        (timm_networks, "timm.vit_tiny_patch16_224", {"conv2d", "dense", "batch_matmul", "softmax"}),
    ],
)
def test_other_zoos_give_their_networks(zoo: Any, name: str, operators: set[str]) -> None:
    if find_spec(name.partition(".")[0]) is None:
        pytest.skip(f"{name.partition('.')[0]} is not installed")
    found = log_operators(dict(zoo())[name])
    assert operators <= {s.operator for s in found.calls}


def test_the_table_marks_every_operator_of_the_evaluation_networks() -> None:
    pytest.importorskip("pytorchcv")
    marked = {r.settings: r.evaluation for r in read_zoo_table()}
    for name, factory in evaluation_networks():
        calls = log_operators(factory).calls
        assert calls
        assert all(name in marked[op] for op in calls)
