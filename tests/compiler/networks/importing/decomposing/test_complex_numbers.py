"""Complex numbers as pairs of real ones. PyTorch's values are the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from foretune.compiler.networks.importing.decomposing.complex_numbers import (
    has_complex_numbers,
    in_real_numbers,
)
from foretune.compiler.networks.importing.decomposing.errors import ConversionError
from torch import nn


class Function(nn.Module):
    """A function as a module, with a complex and a real buffer."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("turns", torch.polar(torch.ones(3), torch.arange(3.0)))

    def forward(self, *inputs: torch.Tensor) -> Any:
        return (self.function(self, *inputs),)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


def joined(x: torch.Tensor) -> torch.Tensor:
    return torch.view_as_complex(x)


PAIRS, OTHER, SIGNAL = normal(2, 3, 2), normal(3, 3, 2)[:2], normal(2, 6, 7)

CASES: dict[str, tuple[Any, ...]] = {
    "product": (lambda _, x, y: torch.view_as_real(joined(x) * joined(y)), PAIRS, OTHER),
    "rotary": (lambda self, x: torch.view_as_real(joined(x) * self.turns).flatten(-2), PAIRS),
    "quotient": (lambda _, x, y: torch.view_as_real(joined(x) / joined(y)), PAIRS, OTHER),
    "sum of parts": (lambda _, x, y: torch.view_as_real(torch.complex(x, y) + 2 * x - 1j), PAIRS, OTHER),
    "product of matrices": (lambda _, x, y: torch.view_as_real(joined(x) @ joined(y).mT), PAIRS, OTHER),
    "size and angle": (lambda _, x: torch.stack([joined(x).abs(), joined(x).angle()]), PAIRS),
    "exponential": (lambda _, x: torch.view_as_real(torch.exp(joined(x))), PAIRS),
    "views": (lambda _, x: torch.view_as_real(torch.cat([joined(x)[:, 1:], joined(x)], 1).mT), PAIRS),
    "rfft": (lambda _, x: torch.view_as_real(torch.fft.rfft(x)), SIGNAL),
    "rfft, padded": (lambda _, x: torch.view_as_real(torch.fft.rfft(x, n=9, norm="ortho")), SIGNAL),
    "two axes": (lambda _, x: torch.fft.fft2(x).imag, SIGNAL),
    "and back, odd": (lambda _, x: torch.fft.irfft(torch.fft.rfft(x) * 2, n=7), SIGNAL),
    "and back, even": (lambda _, x: torch.fft.irfft(torch.fft.rfft(x, dim=1), n=6, dim=1), SIGNAL),
    "inverse": (lambda _, x: torch.fft.ifft(joined(x), norm="forward").real, PAIRS),
    "spectrogram": (
        lambda _, x: torch.stft(x, 8, 4, window=torch.hann_window(8), return_complex=True).abs(),
        normal(2, 32),
    ),
}


def exported(function: Callable[..., Any], *inputs: torch.Tensor) -> tuple[nn.Module, Any]:
    module = Function(function).eval()
    with torch.no_grad():
        return module, torch.export.export(module, inputs)


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
def test_pairs_compute_what_complex_numbers_do(case: tuple[Any, ...]) -> None:
    function, *inputs = case
    module, program = exported(function, *inputs)
    assert has_complex_numbers(program)
    real = in_real_numbers(program)
    assert not has_complex_numbers(real)
    with torch.no_grad():
        torch.testing.assert_close(real.module()(*inputs), module(*inputs), rtol=1e-4, atol=1e-5)


def test_programs_of_real_numbers_stay() -> None:
    program = torch.export.export(nn.ReLU(), (SIGNAL,))
    assert in_real_numbers(program) is program


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda _, x: torch.fft.rfft(x), "an output is complex; return torch.view_as_real"),
        (lambda _, x: torch.fft.rfft(x).tan().real, r"tan.* of complex numbers; compute with their real"),
    ],
)
def test_what_has_no_real_form_is_named(function: Callable[..., Any], message: str) -> None:
    _, program = exported(function, SIGNAL)
    with pytest.raises(ConversionError, match=message):
        in_real_numbers(program)


def test_a_complex_input_is_refused() -> None:
    _, program = exported(lambda _, x: x.real, SIGNAL.to(torch.complex64))
    with pytest.raises(ConversionError, match="an input is complex"):
        in_real_numbers(program)
