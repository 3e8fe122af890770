"""Conversion of a run's networks, checked before the search."""

from __future__ import annotations

from tvm.target import Target

from ...compiler.networks import LoweredNetwork, Network, lowered_network
from ..deploy.dry_run import checked_lowering
from ..deploy.original import Original
from .config import TuneConfig
from .profiling import StageClock

REFERENCE = "reference outputs"
"""Stage that computes the outputs of the original network. It does not count towards the budget, since ONNX's
own evaluator is slow."""


def original_of(network: Network, config: TuneConfig, clock: StageClock) -> Original:
    """The original, which ran once; all comparisons of the run use its outputs."""
    with clock.stage(REFERENCE):
        return Original(network, config.lowering.dtype, config.check_inputs)


def lowered_for(
    network: Network,
    target: Target,
    config: TuneConfig,
    clock: StageClock,
    original: Original | None,
    *,
    waits: bool = True,
) -> LoweredNetwork:
    """The lowered network, after a dry run if there is an `original` and the network is not in the cache.

    Unless it `waits`, the dry run goes on.
    """
    if original is None:
        return lowered_network(network, target, config.lowering, clock.stage, cached=config.cache)
    return checked_lowering(
        *(network, target, config.lowering, clock.stage, original), cached=config.cache, waits=waits
    )
