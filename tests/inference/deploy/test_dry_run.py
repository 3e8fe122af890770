"""Dry run of a converted network before its search."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from foretune.compiler.networks import Network
from foretune.compiler.networks.importing import torch_import
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.deploy.dry_run import DRY_RUN, WrongConversionError, checked_lowering
from foretune.inference.run.profiling import StageClock
from torch import nn
from tvm import relax

HERE = parse_target("llvm")


class Scores(nn.Module):
    """A sum of absolute values, and the maximum of each row."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.abs().sum(), x.amax(1)


NETWORK = Network("scores", (np.array([[1, -2, 3], [-4, -5, -6]], np.float32),), Scores().eval())


def _negated(node: Any, importer: Any) -> relax.Expr:
    return importer.block_builder.emit(relax.op.negative(importer.env[node.args[0]]))


@pytest.mark.parametrize("target", [HERE, parse_target("nvidia/nvidia-a100")], ids=["cpu", "gpu"])
def test_a_wrong_conversion_is_found_before_the_search(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = StageClock()
    lowered = checked_lowering(NETWORK, target, stage=clock.stage)
    assert lowered.tasks and clock.seconds[DRY_RUN] > 0
    monkeypatch.setitem(torch_import.CONVERTERS, "abs.default", _negated)
    with pytest.raises(WrongConversionError) as error:
        checked_lowering(NETWORK, target)
    later = checked_lowering(NETWORK, target, waits=False)
    with pytest.raises(WrongConversionError, match=re.escape(str(error.value))):
        later.wait_for_check()
    message = str(error.value)
    assert message.startswith("network=scores: ")
    assert "output 0 differs from the original's by up to 8 (13 instead of 21 at [])" in message
    assert "tolerance of 0.0021; the first operator with other values is aten.abs.default (" in message
