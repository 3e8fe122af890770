"""Decoding with a compiled step whose cache is an input and an output."""

from __future__ import annotations

import runpy

import numpy as np
import pytest
import torch
from foretune.compiler.networks import Network, to_relax
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.deploy.dry_run import plain_network
from support.paths import ROOT

LENGTH, STEPS = 20, 16


@pytest.mark.parametrize(("factory", "heads", "sliding"), [("llama", 2, False), ("gpt2", 4, True)])
def test_a_compiled_step_decodes_as_pytorch_does(factory: str, heads: int, sliding: bool) -> None:
    """Each step reads the cache of the last one; PyTorch's decoder reads all tokens at once, without one."""
    pytest.importorskip("transformers")
    example = runpy.run_path(str(ROOT / "examples" / "decode_with_cache.py"))
    torch.manual_seed(0)
    step = example[factory](LENGTH, sliding=sliding).eval()
    cache = [np.zeros((1, heads, LENGTH, 16), np.float32)] * 4
    network = Network("step", (np.array([[1]]), np.array([0]), *cache), step)
    target = parse_target("llvm")
    run = plain_network(to_relax(network, target), target)
    tokens, scores = example["decoded"](run, 1, cache, STEPS)
    with torch.inference_mode():
        expected = step.decoder(torch.tensor([[1, *tokens[:-1]]])).logits[0].numpy()
    np.testing.assert_allclose(np.stack(scores), expected, rtol=1e-4, atol=1e-5)
    assert expected.argmax(-1).tolist() == tokens
