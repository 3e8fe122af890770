"""Networks of the suite by their name in a result, and as cases."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from foretune.compiler.networks import Network
from foretune.compiler.networks.inputs import example_inputs
from foretune.compiler.networks.known import draw_statistics

from ..cases import Case, Subject
from ..zoos import Entry
from .texts import TEXTS
from .visions import VISIONS
from .waves import WAVES

NETWORKS: Mapping[str, Entry] = {**TEXTS, **VISIONS, **WAVES}


def subject(name: str) -> Subject:
    """The network of one case; deep networks reorder sums, so that elements may differ by more."""
    entry = NETWORKS[name]
    torch.manual_seed(0)
    network = Network(name, example_inputs(entry.inputs, 0), draw_statistics(entry.build()).eval())
    return Subject(network, network.reference_outputs(), relative=2e-2, absolute=2e-3)


def cases() -> list[Case]:
    """All networks, whether their zoos are installed or not."""
    return [Case(name, entry.family, partial(subject, name)) for name, entry in NETWORKS.items()]
