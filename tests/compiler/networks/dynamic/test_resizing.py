"""Images that are resized to symbolic extents: PyTorch's values, in few functions."""

from __future__ import annotations

from collections.abc import Mapping
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


class Resized(nn.Module):
    """Features of half the size, resized as `options` say; between convolutions if it is `inner`."""

    def __init__(self, inner: bool = False, to_image: bool = False, **options: Any) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 5, 3, 2, 1), nn.Conv2d(5, 4, 3, 1, 1)
        self.inner, self.to_image, self.options = inner, to_image, options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size = {"size": x.shape[-2:]} if self.to_image else {}
        resized = interpolate(torch.relu(self.first(x)), **size, **self.options)
        return self.last(resized) if self.inner else resized


OPTIONS: dict[str, dict[str, Any]] = {
    "nearest by 2": {"scale_factor": 2.0},
    "nearest to the image": {"to_image": True, "mode": "nearest"},
    "linear": {"to_image": True, "mode": "bilinear"},
    "linear, aligned": {"to_image": True, "mode": "bilinear", "align_corners": True},
    "linear by 3": {"scale_factor": 3.0, "mode": "bilinear"},
    "linear to a fixed size": {"size": (9, 10), "mode": "bilinear"},
    "linear by 1.5": {"scale_factor": 1.5, "mode": "bilinear"},
    "cubic": {"to_image": True, "mode": "bicubic"},
    "cubic, aligned": {"scale_factor": 2.0, "mode": "bicubic", "align_corners": True},
}


@multiplies("float32")
@pytest.mark.parametrize("inner", [False, True], ids=["output", "between convolutions"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_outputs_are_those_of_pytorch(options: Mapping[str, Any], inner: bool) -> None:
    dynamic = dynamic_inputs(NETWORK, [[1, 3, "h=5:32", "w=5:64"]], 1, {})
    kwargs = {"inner": inner, **options}
    network = load_network(NETWORK, inputs=dynamic.at(dynamic.traced), kwargs=kwargs)
    module, tasks = scheduled(to_symbolic_relax(network, dynamic, HERE), dynamic, HERE)
    compiled = compile_symbolic(module, dynamic, HERE, "resized", tasks)
    for at in SIZES:
        (x,) = example_inputs(dynamic.at(at), 0)
        with torch.no_grad():
            expected = network.module(torch.from_numpy(x)).numpy()
        (found,) = flatten(compiled.bind(x)())
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5, err_msg=str(at))
    resizes = [task for task in tasks if "resize" in task["name"]]
    if options.get("scale_factor") != 1.5:
        assert len(resizes) == 2 and {task["kind"] for task in resizes} == {"rows"}, tasks
