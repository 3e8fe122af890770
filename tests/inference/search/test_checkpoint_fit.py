"""Checkpoints and the kinds of devices that they know."""

import logging
from dataclasses import replace

import numpy as np
import pytest
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.search.checkpoint_fit import CheckpointFitError, fitting_checkpoint, misfit
from foretune.models.checkpoints.card import Card
from foretune.models.checkpoints.checkpoint import (
    CheckpointNotFoundError,
    load_checkpoint,
    shipped_checkpoints,
)
from foretune.models.checkpoints.shipped import AUTO, SHIPPED_CHECKPOINTS, CheckpointUse
from support.checkpoints import random_checkpoint

CPU = parse_target({"kind": "llvm", "num-cores": 1})
GPU = parse_target("nvidia/nvidia-a100")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A checkpoint of a CPU."""
    return random_checkpoint(tmp_path_factory.mktemp("checkpoint") / "random")


@pytest.fixture
def card(folder):
    return load_checkpoint(folder).card


def trained_on(card: Card, gpu_share: float) -> Card:
    """The card, with this share of GPU records in the mean of the first hardware feature."""
    mean = card.normaliser.hardware.mean.copy()
    mean[0] = gpu_share
    hardware = replace(card.normaliser.hardware, mean=mean.astype(np.float32))
    return replace(card, normaliser=replace(card.normaliser, hardware=hardware))


@pytest.mark.parametrize(
    ("gpu_share", "on_cpu", "on_gpu"),
    [
        (0.0, None, "trained on records of CPUs alone"),
        (1.0, "trained on records of CUDA GPUs alone", None),
        (0.001, None, None),
        (0.999, None, None),
    ],
)
def test_a_card_tells_the_kinds_of_devices(card, gpu_share, on_cpu, on_gpu):
    trained = trained_on(card, gpu_share)
    assert misfit(trained, CPU) == on_cpu
    assert misfit(trained, GPU) == on_gpu


def test_a_kind_without_records_fits_no_checkpoint(card):
    vulkan = parse_target({"kind": "vulkan"})
    assert misfit(trained_on(card, 0.5), vulkan) == "trained on records of CPUs and CUDA GPUs alone"


def test_a_checkpoint_that_was_trained_further_fits(card):
    further = replace(card, training={"start_from": card.weights_sha256})
    assert misfit(further, GPU) is None


@pytest.mark.parametrize("name", shipped_checkpoints())
def test_a_shipped_checkpoint_knows_the_kind_of_its_name_alone(name):
    card = load_checkpoint(name).card
    known, other, devices = (GPU, CPU, "CUDA GPUs") if name.startswith("cuda") else (CPU, GPU, "CPUs")
    assert misfit(card, known) is None
    assert misfit(card, other) == f"trained on records of {devices} alone"


@pytest.mark.parametrize(("target", "name"), [(CPU, "cpu"), (GPU, "cuda")])
def test_auto_is_the_shipped_checkpoint_of_the_kind(target, name, caplog):
    assert fitting_checkpoint(AUTO, target) == name
    assert not caplog.records


def test_auto_without_one_warns_in_one_line(caplog):
    with caplog.at_level(logging.WARNING):
        assert fitting_checkpoint(AUTO, parse_target("vulkan")) is None
    (message,) = caplog.messages
    assert message.startswith("no checkpoint for vulkan targets comes with foretune")
    assert "foretune train" in message and "\n" not in message


def test_auto_is_checked_as_a_named_checkpoint_is(monkeypatch):
    monkeypatch.setitem(SHIPPED_CHECKPOINTS[CheckpointUse.SCORES], "cuda", "cpu")
    with pytest.raises(CheckpointFitError):
        fitting_checkpoint(AUTO, GPU)


def test_a_named_checkpoint_of_another_kind_is_an_error(folder):
    assert fitting_checkpoint(folder, CPU) == str(folder)
    with pytest.raises(CheckpointFitError, match=r"of CPUs alone, .*checkpoint=null") as caught:
        fitting_checkpoint(folder, GPU)
    assert str(caught.value).startswith(f"checkpoint={folder}: ")
    assert "foretune train dataset=data/cuda" in str(caught.value)


def test_none_is_a_search_without_a_checkpoint(caplog):
    assert fitting_checkpoint(None, GPU) is None
    assert not caplog.records


def test_an_unknown_checkpoint_is_an_error():
    with pytest.raises(CheckpointNotFoundError, match="nowhere"):
        fitting_checkpoint("nowhere", CPU)
