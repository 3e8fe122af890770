"""A network with templates for GPUs, on the emulated device of this process."""

from __future__ import annotations

import sys
from unittest.mock import patch

import numpy as np

from .template_text import TILING, emulated


def run_with_templates(name: str, image: np.ndarray) -> tuple[list[np.ndarray], int]:
    """Outputs of one of `gpu_networks.NETWORKS`, and the number of its templates."""
    sys.modules.pop("torch", None)  # processes with an emulated device do without it otherwise
    from foretune.inference.deploy.compile import compile_network
    from tvm.relax import vm_build

    from .gpu_networks import TARGET, lowered, with_templates

    _, mod, _ = lowered(name)
    placed, count = with_templates(mod, lambda problem: emulated(problem, TILING))
    # TVM knows a module of a device by its kind; an emulated one is a library.
    with patch.object(vm_build, "_is_device_module", return_value=True):
        return compile_network(placed, TARGET)(image), count
