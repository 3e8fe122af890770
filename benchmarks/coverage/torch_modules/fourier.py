"""Fourier transforms and complex numbers."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .making import IMAGE, MATRIX, Table, normal

SIGNAL = normal(2, 16)
WAVE = normal(2, 64)
PAIRS = normal(3, 4, 2)


def spectrogram(x: torch.Tensor) -> torch.Tensor:
    """Log power of windows of 16 samples, a hop of 8."""
    window = torch.hann_window(16)
    found = torch.stft(x, 16, 8, window=window, return_complex=True)
    return (found.abs() ** 2 + 1e-6).log()


TABLE: Table = {
    "rfft": (lambda x: torch.view_as_real(torch.fft.rfft(x)), SIGNAL),
    "rfft_abs": (lambda x: torch.fft.rfft(x).abs(), SIGNAL),
    "rfft_parts": (lambda x: (torch.fft.rfft(x).real, torch.fft.rfft(x).imag), SIGNAL),
    "rfft_ortho": (lambda x: torch.fft.rfft(x, norm="ortho").real, SIGNAL),
    "rfft_padded": (lambda x: torch.fft.rfft(x, n=20).abs(), SIGNAL),
    "irfft": (lambda x: torch.fft.irfft(torch.view_as_complex(x), n=6), normal(3, 4, 2)),
    "irfft_odd": (lambda x: torch.fft.irfft(torch.fft.rfft(x), n=5), MATRIX),
    "fft": (lambda x: torch.view_as_real(torch.fft.fft(x)), SIGNAL),
    "fft_real": (lambda x: torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real, SIGNAL),
    "ifft": (lambda x: torch.fft.ifft(torch.view_as_complex(x)).real, PAIRS),
    "rfft2": (lambda x: torch.fft.rfft2(x).abs(), IMAGE),
    "irfft2": (lambda x: torch.fft.irfft2(torch.fft.rfft2(x) * 2, s=(9, 8)), IMAGE),
    "fft2": (lambda x: torch.fft.fft2(x).imag, IMAGE),
    "fftshift": (lambda x: torch.fft.fftshift(x), MATRIX),
    "long_convolution": (
        lambda x, k: torch.fft.irfft(torch.fft.rfft(x, n=32) * torch.fft.rfft(k, n=32), n=32)[..., :16],
        SIGNAL,
        normal(2, 16, seed=1),
    ),
    "stft": (spectrogram, WAVE),
    "stft_real": (
        lambda x: torch.view_as_real(torch.stft(x, 16, 8, window=torch.ones(16), return_complex=True)),
        WAVE,
    ),
    "istft": (
        lambda x: torch.istft(
            torch.stft(x, 16, 4, window=torch.hann_window(16), return_complex=True),
            16,
            4,
            window=torch.hann_window(16),
        ),
        WAVE,
    ),
    "spectral_gate": (
        lambda x: torch.fft.irfft(torch.fft.rfft(x) * torch.linspace(1, 0, 9), n=16),
        SIGNAL,
    ),
    "complex_product": (
        lambda x, y: torch.view_as_real(torch.view_as_complex(x) * torch.view_as_complex(y)),
        PAIRS,
        normal(3, 4, 2, seed=1),
    ),
    "complex_arithmetic": (
        lambda x, y: torch.view_as_real(torch.complex(x, y) + 2 * torch.complex(y, x) - 1j),
        MATRIX,
        normal(4, 5, seed=1),
    ),
    "complex_conjugate": (
        lambda x: torch.view_as_real(torch.view_as_complex(x).conj().resolve_conj()),
        PAIRS,
    ),
    "complex_abs_angle": (
        lambda x: (torch.view_as_complex(x).abs(), torch.view_as_complex(x).angle()),
        PAIRS,
    ),
    "complex_exp": (lambda x: torch.view_as_real(torch.exp(torch.view_as_complex(x))), PAIRS),
    "complex_quotient": (
        lambda x, y: torch.view_as_real(torch.view_as_complex(x) / torch.view_as_complex(y)),
        PAIRS,
        normal(3, 4, 2, seed=1),
    ),
    "complex_matmul": (
        lambda x, y: torch.view_as_real(torch.view_as_complex(x) @ torch.view_as_complex(y).mT),
        PAIRS,
        normal(3, 4, 2, seed=1),
    ),
    "polar": (lambda x: torch.view_as_real(torch.polar(x.abs(), x)), MATRIX),
    "polar_of_constants": (
        lambda x: torch.view_as_real(
            torch.view_as_complex(x) * torch.polar(torch.ones(4), torch.arange(4.0))
        ).flatten(-2),
        PAIRS,
    ),
    "mel_features": (
        lambda x, m: F.relu(spectrogram(x).transpose(1, 2) @ m),
        WAVE,
        normal(9, 4),
    ),
    "complex_output": (lambda x: torch.fft.fft(x), SIGNAL),
    "hadamard_by_reshape": (
        lambda x: torch.stack([x[..., ::2] + x[..., 1::2], x[..., ::2] - x[..., 1::2]], -1),
        SIGNAL,
    ),
}
