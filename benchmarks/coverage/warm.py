"""Import for the fork server: converts and compiles one network, so that its processes need not load so much.

PyTorch and TVM import half of their modules in the first conversion, which takes eight seconds.
"""

from __future__ import annotations

import numpy as np
from foretune.compiler.networks import Network, to_relax
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.deploy.compile import compile_network
from torch import nn


def _warm() -> None:
    """Runs nothing: threads of TVM and PyTorch would not outlive a fork."""
    network = Network(
        "warm", (np.zeros((2, 4), np.float32),), nn.Sequential(nn.Linear(4, 3), nn.ReLU()).eval()
    )
    target = parse_target("llvm")
    compile_network(to_relax(network, target), target)


_warm()
