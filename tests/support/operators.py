"""Examples of every registered operator, and how tests run them and PyTorch on the same inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import torch
import tvm
from foretune.compiler.operators import OPERATOR_SETTINGS, OperatorSettings
from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import argument_buffers
from torch.nn import functional as F

EXAMPLES: Mapping[str, OperatorSettings] = {
    name: cls.examples()[0] for name, cls in OPERATOR_SETTINGS.items()
}
"""First example of each operator type."""

SPECIAL_EXAMPLES = [op for cls in OPERATOR_SETTINGS.values() for op in cls.examples()[1:]]


def random_inputs(op: OperatorSettings, task: Task, seed: int = 0) -> list[torch.Tensor]:
    """Normal inputs of an operator's task, or small integers, without its output."""
    generator = torch.Generator().manual_seed(seed)
    inputs = [
        torch.randn(shape, generator=generator).to(getattr(torch, dtype))
        if "float" in dtype
        else torch.randint(-50, 50, shape, generator=generator, dtype=getattr(torch, dtype))
        for shape, dtype in argument_buffers(task.mod)[:-1]
    ]
    return op.prepare_inputs(inputs)


def run(task: Task, inputs: list[torch.Tensor]) -> np.ndarray:
    """Output of the unscheduled task on this CPU."""
    shape, dtype = argument_buffers(task.mod)[-1]
    output = tvm.runtime.tensor(np.zeros(shape, np.dtype(dtype)))
    tvm.compile(task.mod, target="llvm")["main"](*(tvm.runtime.tensor(as_array(x)) for x in inputs), output)
    return output.numpy()


def as_array(values: torch.Tensor) -> np.ndarray:
    """Values in NumPy, which has bfloat16 by ml_dtypes alone."""
    if values.dtype == torch.bfloat16:
        return values.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return values.numpy()


def pytorch_output(op: OperatorSettings, inputs: list[torch.Tensor]) -> torch.Tensor:
    """Output of PyTorch in float64, with the epilogue."""
    tensors = [x.double() for x in inputs]
    own = len(replace(op, epilogue="none").tensors()) - 1
    return _epilogue(op.epilogue, op.reference(tensors[:own]), tensors[own:])


def _epilogue(epilogue: str, output: torch.Tensor, extra: list[torch.Tensor]) -> torch.Tensor:
    more = iter(extra)
    functions: Any = {"relu": F.relu, "relu6": F.relu6, "gelu": F.gelu, "silu": F.silu, "none": lambda x: x}
    for step in epilogue.split("_"):
        if step in ("bias", "add"):
            output = output + next(more)
        else:
            output = functions[step](output)
    return output
