"""An advice made up by hand."""

from __future__ import annotations

from foretune.inference.bolt.advice.content import (
    ActivationAdvice,
    Advice,
    AlignmentAdvice,
    DeepeningAdvice,
    LayerCosts,
)

WIDTHS = {"in_channels": (40, 48), "out_channels": (24, 32)}
ADVICE = Advice(
    network="<net>",
    target="llvm",
    hardware="A & B",
    measured=True,
    checkpoint="cpu",
    network_s=10e-3,
    tasks=5,
    unknown=["lost"],
    layers=3,
    sources={"template": 2, "short search": 2},
    alignment=16,
    nearly_free=0.01,
    activations=[
        ActivationAdvice("none", 0, -0.5e-3, -0.05, 2, 2),
        ActivationAdvice("relu6", 0, -0.1e-3, -0.01, 2, 2),
        ActivationAdvice("relu", 4, 0.0, 0.0, 2, 2),
        ActivationAdvice("softplus", 0, 0.0, 0.0, 0, 2),
    ],
    layer_costs=[LayerCosts("conv2d", "conv", 4, "relu", 1e-3, {"relu": 0.0}, {"relu": [0.0]})],
    aligned=[
        AlignmentAdvice("conv2d a", "a", 2, "down", WIDTHS, 2e-3, 1.5e-3, 0.05),
        AlignmentAdvice("conv2d b", "b", 1, "up", WIDTHS, 1e-3, 1.25e-3, -0.025),
        AlignmentAdvice("conv2d a", "a", 2, "up", WIDTHS, 2e-3, 3e-3, -0.1),
    ],
    deeper=[
        DeepeningAdvice("conv2d a", "a", 2, 24, 0.05e-3, 0.005, 1200),
        DeepeningAdvice("conv2d b", "b", 1, 64, 0.2e-3, 0.02, 4160),
    ],
)
