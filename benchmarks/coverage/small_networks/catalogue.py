"""Networks of the suite by their name in a result, and as cases."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
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
    """The network of one case.

    Deep networks reorder sums, so that elements may differ by 2 %, by 0.002, or by 0.01 % of the largest one.
    """
    entry = NETWORKS[name]
    torch.manual_seed(0)
    network = Network(name, example_inputs(entry.inputs, 0), draw_statistics(entry.build()).eval())
    expected = network.reference_outputs()
    largest = max(float(np.abs(one.astype(np.float64)).max(initial=0)) for one in expected)
    return Subject(network, expected, relative=2e-2, absolute=max(2e-3, 1e-4 * largest))


def cases() -> list[Case]:
    """All networks, whether their zoos are installed or not."""
    return [Case(name, entry.family, partial(subject, name)) for name, entry in NETWORKS.items()]
