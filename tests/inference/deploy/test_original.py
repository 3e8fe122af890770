"""Outputs of the original network on several inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from foretune.compiler.networks import Network
from foretune.compiler.networks.input_file import InputFileError
from foretune.compiler.networks.random_draws import RandomNetworkError
from foretune.inference.deploy.original import DRAWN, EDGE, Original
from foretune.inference.deploy.outputs import OutputFormError
from torch import nn

X = np.array([0.5, 1.5, 2.5], np.float32)


class Rectified(nn.Module):
    """ReLU and the position of the largest element."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.relu(), x.argmax()


NETWORK = Network("rectified", (X,), Rectified())


def test_a_fault_on_negative_elements_alone_is_found() -> None:
    original = Original(NETWORK)
    assert original.compared_on == [DRAWN, EDGE]
    assert original.check(lambda x: [np.maximum(x, 0), x.argmax()]).agrees
    assert original.compare([X, X.argmax()]).agrees
    check = original.check(lambda x: [x, x.argmax()])  # right for the drawn elements, which are positive
    assert not check.agrees and check.inputs == EDGE
    assert "output 0 differs" in original.describe(check) and "-1.5 instead of 0 at [1]" in original.describe(
        check
    )


def test_a_users_inputs_are_compared(tmp_path: Path) -> None:
    path = tmp_path / "inputs.npz"
    np.savez(path, x=np.array([3, 9, 1], np.float32))
    original = Original(NETWORK, check_inputs=path)
    check = original.check(lambda x: [np.clip(x, 0, 6), x.argmax()])
    assert original.compared_on[2] == check.inputs == f"check_inputs={path}"
    np.savez(path, x=np.zeros(4, np.float32))
    with pytest.raises(InputFileError, match=r"x is float32 of shape \[4\]"):
        Original(NETWORK, check_inputs=path)


def test_inputs_on_which_the_original_fails_are_an_error_of_the_file_alone(tmp_path: Path) -> None:
    class Positive(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if bool((x <= 0).any()):
                raise ValueError("not positive")
            return x

    network = Network("positive", (X,), Positive())
    assert Original(network).compared_on == [DRAWN]  # edge cases are no inputs of this network
    np.savez(tmp_path / "inputs.npz", x=-X)
    with pytest.raises(InputFileError, match="network=positive does not run on them: ValueError"):
        Original(network, check_inputs=tmp_path / "inputs.npz")


def test_outputs_of_another_form_are_an_error_that_names_the_network() -> None:
    with pytest.raises(OutputFormError, match="network=rectified: after its conversion, output 1 is int32"):
        Original(NETWORK).check(lambda x: [np.maximum(x, 0), x.argmax().astype(np.int32)])
    with pytest.raises(
        OutputFormError, match=r"rectified: after its conversion, the outputs have shapes \[\[3\]\]"
    ):
        Original(NETWORK).check(lambda x: [x])


def test_ties_are_not_compared_but_distinct_elements_are() -> None:
    class Largest(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.reshape(2, 2).argmax(1)

    network = Network("largest", (np.array([1, 1, 0, 5], np.float32),), Largest())
    compare = Original(network).compare
    assert compare([np.array([0, 1])]).agrees and compare([np.array([1, 1])]).agrees
    assert not compare([np.array([0, 0])]).agrees


def test_outputs_that_say_nothing_are_named() -> None:
    class Constant(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return x, x * 0, x.sum(), x * 1e-30, x * torch.nan, torch.ones(2, dtype=torch.bool)

    assert Original(Network("constant", (X,), Constant())).unchecked() == [
        "output 1 is 0 everywhere",
        "output 3 is less than 1e-20 everywhere",
        "output 4 is not a number anywhere",
        "output 5 is True everywhere",
    ]


def test_a_network_with_a_state_is_refused() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x + self.calls

    with pytest.raises(RandomNetworkError, match=r"network=counting: .* changes its own state"):
        Original(Network("counting", (X,), Counting()))


def test_an_original_that_runs_once_has_the_drawn_inputs_alone() -> None:
    runs: list[torch.Tensor] = []

    class Counting(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            runs.append(x)
            return x

    network = Network("counting", (X,), Counting())
    assert Original(network, once=True).compared_on == [DRAWN] and len(runs) == 1
    assert Original(network).compared_on == [DRAWN, EDGE] and len(runs) == 4
    assert Original(network, once=True).nbytes == 2 * 3 * 4 and Original(network).nbytes == 2 * 2 * 3 * 4
