"""Entry of `python -m benchmarks.coverage.small_networks`."""

from __future__ import annotations

from functools import partial

import torch
from foretune.compiler.networks import Network
from foretune.compiler.networks.inputs import example_inputs
from foretune.compiler.networks.known import draw_statistics

from ...coverage import small_networks
from ..__main__ import INSTALL, installed
from ..cases import Case, Subject
from ..checking import check_untuned
from ..suite import run_suite
from .catalogue import NETWORKS


def subject(name: str) -> Subject:
    """The network of one case; deep networks reorder sums, so that elements may differ by more."""
    entry = NETWORKS[name]
    torch.manual_seed(0)
    module = draw_statistics(entry.build()).eval()
    return Subject(Network(name, example_inputs(entry.inputs, 0), module), relative=2e-2, absolute=2e-3)


def cases() -> list[Case]:
    """All networks whose zoos are installed."""
    return [
        Case(name, entry.family, partial(subject, name))
        for name, entry in NETWORKS.items()
        if installed(entry.zoo)
    ]


def main() -> None:
    missing = sorted({entry.zoo for entry in NETWORKS.values() if not installed(entry.zoo)})
    for zoo in missing:
        print(f"left out {zoo}, which is not installed: {INSTALL[zoo]}")
    further = {"missing_zoos": missing}
    run_suite(small_networks, "coverage_networks", cases(), check_untuned, limit_s=240, further=further)


if __name__ == "__main__":
    main()
