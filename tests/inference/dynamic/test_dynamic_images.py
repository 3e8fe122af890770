"""Images of any height and width, and lines of text of any width, from `foretune tune` on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from foretune.compiler.networks import Lowering
from foretune.inference.dynamic.result import DynamicResult
from foretune.inference.run.config import TuneConfig
from foretune.inference.tune import run
from rich.console import Console
from support.tuning import PREDICTED
from tvm.support.cc import get_cc

pytestmark = [pytest.mark.slow, pytest.mark.skipif(get_cc() is None, reason="no C++ compiler")]


@pytest.mark.parametrize(
    ("network", "shape", "dims"),
    [
        ("Segmentation", [1, 3, "h", "w"], {"h": "16:50", "w": "16:50"}),
        ("Segmentation", [1, 3, "8*h", "8*w"], {"h": "2:6", "w": "2:6"}),
        ("TextLine", [1, 1, 16, "w"], {"w": "8:40"}),
    ],
)
def test_kernels_are_right_at_all_compared_sizes(
    network: str, shape: list[Any], dims: dict[str, str], tmp_path: Path
) -> None:
    result = run(
        TuneConfig(
            network=f"support.networks:{network}",
            output=tmp_path / "report",
            database=tmp_path / "database",
            inputs=[shape],
            dims=dims,
            search=PREDICTED,
        ),
        Console(quiet=True),
    )
    assert isinstance(result, DynamicResult)
    assert len(result.sizes) >= 7
    assert {task["kind"] for task in result.tasks} >= {"product", "rows"}  # and no plain schedules for all


def test_images_of_any_size_by_winograds_algorithm(tmp_path: Path) -> None:
    """Two layers of 64 channels with batch norm, residual and ReLU, at sizes of both algorithms."""

    def tasks(folder: str, winograd: str) -> list[Any]:
        result = run(
            TuneConfig(
                network="support.networks:Residual",
                kwargs={"channels": 64},
                output=tmp_path / folder,
                database=tmp_path / "database",
                inputs=[["b", 64, "h", "w"]],
                dims={"b": "1:3", "h": "1:21", "w": "1:30"},
                search=PREDICTED,
                lowering=Lowering(winograd=winograd),
            ),
            Console(quiet=True),
        )
        assert isinstance(result, DynamicResult)
        assert not result.plain
        return [task["winograd"] for task in result.tasks if task["kind"] == "product"]

    assert sum(one is not None for one in tasks("auto", "auto")) in (1, 2)
    assert set(tasks("off", "off")) == {None}
