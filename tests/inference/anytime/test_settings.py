"""Settings that an early library needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.measure import ExecutorConfig
from foretune.inference.run.config import TuneConfig, TuneConfigError
from foretune.inference.search.config import OneShotConfig
from tvm.support.cc import get_cc

pytestmark = pytest.mark.skipif(get_cc() is None, reason="no C++ compiler")

UNMEASURED = OneShotConfig(measure=False, rounds=1)


def config(folder: Path, **changes: Any) -> TuneConfig:
    settings = {"network": "resnet18", "output": folder, "database": folder, "export": folder / "net.so"}
    return TuneConfig(**{**settings, "anytime": True, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"export": None}, r"anytime=true: export= names no file for the library; give one"),
        ({"search": UNMEASURED}, r"anytime=true search\.measure=false: better libraries follow from"),
        (
            {"export": None, "network": ["resnet18", "resnet50"]},
            r"anytime=true: the networks of a set .* tune them one by one",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_named(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(TuneConfigError, match=message):
        config(tmp_path, **changes)


def test_a_device_elsewhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TuneConfigError, match="executor=dry_run"):
        config(tmp_path, executor=ExecutorConfig("dry_run"))


def test_a_gpu_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TuneConfigError, match=r"anytime=true target=cuda: .*; leave anytime out"):
        config(tmp_path).check_for(parse_target("nvidia/nvidia-a100"))
