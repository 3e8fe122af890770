"""Tests of executor settings, from conf/executor to an executor of the right kind."""

from pathlib import Path

import pytest
from foretune import conf
from foretune.compiler.tvm_compat import parse_target
from foretune.configuration import from_hydra
from foretune.dataset.measure import ExecutorConfig, ExecutorConfigError, MeasureConfig, make_executor
from foretune.dataset.measure.config import KINDS
from omegaconf import OmegaConf

GROUP = Path(str(conf.__file__)).parent / "executor"
NEEDED = {
    "rpc": {"key": "board", "hardware": "t4"},
    "none": {"hardware": "here"},
    "replay": {"pool": "data/pool"},
}
"""Settings of a kind that the code has no default for."""


def settings(kind: str, **changes):
    return OmegaConf.merge(OmegaConf.load(GROUP / f"{kind}.yaml"), changes)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_its_settings_and_their_defaults_are_those_of_the_code(kind):
    needed = NEEDED.get(kind, {})
    given = {} if kind == "none" else needed
    assert from_hydra(settings(kind, **given), ExecutorConfig) == ExecutorConfig(kind=kind, **needed)


def test_no_other_kind_is_offered():
    assert {path.stem for path in GROUP.glob("*.yaml")} == set(KINDS)


def test_a_tracker_needs_a_key():
    with pytest.raises(ExecutorConfigError, match=r"executor[.]key is missing: set it"):
        from_hydra(settings("rpc", hardware="t4"), ExecutorConfig)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "slurm"),
        ("devices", 0),
        ("cuda_compiler", "gcc"),
        ("wait_s", 0.0),
        ("session_timeout_s", -1.0),
    ],
)
def test_settings_that_cannot_be_are_named(field, value):
    with pytest.raises(ExecutorConfigError, match=f"{value}: (unknown|must be)"):
        ExecutorConfig(**{field: value})


def test_an_executor_without_its_package_says_what_to_install(monkeypatch):
    monkeypatch.setattr("foretune.dataset.measure.find_spec", lambda name: None)
    with pytest.raises(ExecutorConfigError, match=r"executor=ray needs the package ray: run `pip install"):
        make_executor(ExecutorConfig(kind="ray"), parse_target("llvm"), MeasureConfig())


def test_a_target_that_this_machine_cannot_run_is_refused():
    with pytest.raises(ExecutorConfigError, match="target=opencl: measures llvm and cuda targets only"):
        make_executor(ExecutorConfig(), parse_target("opencl"), MeasureConfig())
