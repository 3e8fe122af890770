"""Element-wise operations fused behind an operator."""

from __future__ import annotations

from tvm import te, topi

from .activations import gelu, silu


def fuse(output: te.Tensor, epilogue: str, bias_shape: tuple[int, ...]) -> tuple[list[te.Tensor], te.Tensor]:
    """Applies the steps of an epilogue such as `bias_add_relu`, in order.

    Returns the inputs that the steps add (a bias, a residual of the output's shape) and the new output.
    """
    inputs = []
    for step in () if epilogue == "none" else epilogue.split("_"):
        if step == "bias":
            bias = te.placeholder(bias_shape, dtype=output.dtype, name="bias")
            inputs.append(bias)
            # PyTorch's addmm arrives with the bias on the left, a convolution's with the bias on the right.
            output = topi.add(bias, output) if len(bias_shape) == 1 else topi.add(output, bias)
        elif step == "add":
            residual = te.placeholder(
                tuple(int(extent) for extent in output.shape), dtype=output.dtype, name="residual"
            )
            inputs.append(residual)
            output = topi.add(output, residual)
        elif step == "relu":
            output = topi.nn.relu(output)
        elif step == "relu6":
            output = topi.clip(output, 0.0, 6.0)
        elif step == "gelu":
            output = gelu(output)
        elif step == "silu":
            output = silu(output)
        else:
            raise ValueError(f"epilogue={epilogue!r}: no step {step!r}")
    return inputs, output
