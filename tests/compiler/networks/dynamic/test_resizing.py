"""Images that are resized to symbolic extents: PyTorch's values, in few functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from foretune.compiler.networks import load_network
from foretune.compiler.networks.dynamic.dynamic_inputs import dynamic_inputs
from foretune.compiler.networks.dynamic.lowering import scheduled, to_symbolic_relax
from foretune.compiler.networks.inputs import example_inputs
from foretune.inference.deploy.compile import flatten
from foretune.inference.dynamic.run import compile_symbolic
from support.cpus import HERE, multiplies
from torch import nn
from torch.nn.functional import interpolate

NETWORK = f"{__name__}:Resized"
SIZES = [{"h": 5, "w": 6}, {"h": 8, "w": 7}, {"h": 31, "w": 16}, {"h": 13, "w": 61}]


OPTIONS: dict[str, dict[str, Any]] = {
    "nearest by 2": {"scale_factor": 2.0},
    "nearest": {"size": None, "mode": "nearest"},
    "linear": {"size": None, "mode": "bilinear"},
    "linear, aligned": {"size": None, "mode": "bilinear", "align_corners": True},
    "linear by 3": {"scale_factor": 3.0, "mode": "bilinear"},
    "linear to a fixed size": {"size": (9, 10), "mode": "bilinear"},
    "linear by 1.5": {"scale_factor": 1.5, "mode": "bilinear"},
    "cubic": {"size": None, "mode": "bicubic"},
    "cubic, aligned": {"scale_factor": 2.0, "mode": "bicubic", "align_corners": True},
}
"""Options of `interpolate`; a size of None stands for that of the image."""


class Resized(nn.Module):
    """Features of half the size, resized in several ways; between convolutions if it is `inner`."""

    def __init__(self, inner: bool = False, names: Sequence[str] = tuple(OPTIONS)) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 5, 3, 2, 1), nn.Conv2d(5, 4, 3, 1, 1)
        self.inner, self.names = inner, names

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        features = torch.relu(self.first(x))
        found = []
        for name in self.names:
            options = dict(OPTIONS[name])
            if options.get("size", 0) is None:
                options["size"] = x.shape[-2:]
            found.append(interpolate(features, **options))
        return [self.last(one) for one in found] if self.inner else found


@multiplies("float32")
@pytest.mark.parametrize(
    "kwargs",
    [{}, {"inner": True, "names": ["nearest by 2", "linear", "cubic"]}],
    ids=["outputs", "between convolutions"],
)
def test_outputs_are_those_of_pytorch(kwargs: Mapping[str, Any]) -> None:
    dynamic = dynamic_inputs(NETWORK, [[1, 3, "h=5:32", "w=5:64"]], 1, {})
    network = load_network(NETWORK, inputs=dynamic.at(dynamic.traced), kwargs=kwargs)
    module, tasks = scheduled(to_symbolic_relax(network, dynamic, HERE), dynamic, HERE)
    compiled = compile_symbolic(module, dynamic, HERE, "resized", tasks)
    for at in SIZES:
        (x,) = example_inputs(dynamic.at(at), 0)
        with torch.no_grad():
            expected = network.module(torch.from_numpy(x))
        found = flatten(compiled.bind(x)())
        for name, one, right in zip(kwargs.get("names", OPTIONS), found, expected, strict=True):
            note = f"{name} at {at}"
            np.testing.assert_allclose(one.numpy(), right.numpy(), rtol=1e-4, atol=1e-5, err_msg=note)
    resizes = [task for task in tasks if "resize" in task["name"]]
    assert resizes and {task["kind"] for task in resizes} == {"rows"}
