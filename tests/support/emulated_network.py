"""A network with templates for GPUs, on the emulated device of this process."""

from __future__ import annotations

import sys
from dataclasses import replace
from unittest.mock import patch

import numpy as np

from .template_text import TILING, emulated


def run_with_templates(name: str, image: np.ndarray, parts: int = 1) -> tuple[list[np.ndarray], int]:
    """Outputs of one of the networks of `gpu_networks`, and the number of its templates.

    Sums are divided into `parts` where they may be.
    """
    if sys.modules.get("torch") is None:  # processes with an emulated device do without it otherwise
        sys.modules.pop("torch", None)
    from foretune.compiler.templates.gpu.launches import power_of_two
    from foretune.compiler.templates.gpu.rows import Rows
    from foretune.compiler.templates.gpu.tiling import Tiling
    from foretune.inference.deploy.compile import compile_network
    from tvm.relax import vm_build

    from .gpu_networks import TARGET, lowered, with_templates

    _, mod, _ = lowered(name)

    def template(problem):
        if isinstance(problem, Rows):
            return emulated(problem, Tiling(1, power_of_two(problem.n), 1, 1, 1))
        return emulated(problem, replace(TILING, parts=parts if problem.divisible else 1))

    placed, count = with_templates(mod, template)
    # TVM knows a module of a device by its kind; an emulated one is a library.
    with patch.object(vm_build, "_is_device_module", return_value=True):
        return compile_network(placed, TARGET)(image), count
