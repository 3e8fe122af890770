"""Element-wise operations fused after an operator."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import te, tirx, topi

from ...types import WIDE, data_type

RESIDUAL = "residual"
"""Name of the input that the step `add` adds."""


def fuse(output: te.Tensor, epilogue: str, bias_shape: tuple[int, ...]) -> tuple[list[te.Tensor], te.Tensor]:
    """Applies the steps of an epilogue such as `bias_add_relu`, in order.

    Returns the inputs that the steps add (a bias, a residual of the output's shape) and the new output.
    """
    inputs = []
    for step in () if epilogue == "none" else epilogue.split("_"):
        if step == "bias":
            bias = te.placeholder(bias_shape, dtype=output.dtype, name="bias")
            inputs.append(bias)
            # PyTorch's addmm is imported with the bias on the left, a convolution with the bias on the right.
            output = topi.add(bias, output) if len(bias_shape) == 1 else topi.add(output, bias)
        elif step == "add":
            residual = te.placeholder(
                tuple(int(extent) for extent in output.shape), dtype=output.dtype, name=RESIDUAL
            )
            inputs.append(residual)
            output = topi.add(output, residual)
        elif step == "relu":
            output = topi.nn.relu(output)
        elif step == "relu6":
            output = topi.clip(output, 0.0, 6.0)
        elif step == "gelu":
            output = _gelu(output)
        elif step == "silu":
            output = topi.multiply(output, topi.sigmoid(output))
        else:
            raise ValueError(f"epilogue={epilogue!r}: no step {step!r}")
    return inputs, output


def _gelu(x: te.Tensor) -> te.Tensor:
    """x * (0.5 + 0.5 * erf(x / sqrt(2))), step by step as Relax legalises it."""
    half = tirx.const(0.5, x.dtype)
    scaled = topi.multiply(x, tirx.const(0.5**0.5, x.dtype))
    if data_type(str(x.dtype)).bits < data_type(WIDE).bits:  # no target has an error function of such a type
        erf = topi.cast(topi.erf(topi.cast(scaled, WIDE)), x.dtype)
    else:
        erf = topi.erf(scaled)
    return topi.multiply(x, topi.add(half, topi.multiply(erf, half)))


def first_steps(epilogue: str, possible: Sequence[str]) -> str:
    """The longest start of an epilogue that is possible, `none` if no step is."""
    while epilogue not in possible:
        epilogue = epilogue.rpartition("_")[0] or "none"
    return epilogue
