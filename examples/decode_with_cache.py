"""Decode text token by token with a compiled step of a decoder, whose KV cache is an input and an output.

CACHE=[1,2,32,16]
foretune tune network=examples.decode_with_cache:llama export=step.so \
    "inputs=[{shape: [1,1], dtype: int64}, {shape: [1], dtype: int64}, $CACHE, $CACHE, $CACHE, $CACHE]"
python examples/decode_with_cache.py step.so

The inputs are a token, its position and the keys and values of each layer. The outputs are the scores of the
next token and the new keys and values. A compiled network has fixed shapes, so the cache has room for
`length` positions, and a mask leaves out those without a token.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import foretune
import numpy as np
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
from transformers.cache_utils import Cache, DynamicLayer


class GivenCache(Cache):
    """Cache of transformers over given tensors [batch, heads, length, width], two for each layer."""

    def __init__(self, tensors: Sequence[torch.Tensor], written: Callable[..., torch.Tensor]) -> None:
        super().__init__(layers=[DynamicLayer() for _ in tensors[::2]])
        self.tensors = list(tensors)
        self.written = written

    def update(
        self, key_states: Any, value_states: Any, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Any, Any]:
        """Writes the new position of a layer and returns all keys and values of it."""
        for place, new in ((2 * layer_idx, key_states), (2 * layer_idx + 1, value_states)):
            self.tensors[place] = self.written(self.tensors[place], new)
        return self.tensors[2 * layer_idx], self.tensors[2 * layer_idx + 1]


class DecoderStep(nn.Module):
    """One step of a decoder of transformers.

    Args:
        decoder: a network for causal language modelling.
        length: positions of the cache.
        sliding: the cache is a window of the last positions (`cat`); otherwise a position is written at its
            place (`index_copy`), which must be below `length`.
    """

    def __init__(self, decoder: nn.Module, length: int, *, sliding: bool = False) -> None:
        super().__init__()
        self.decoder = decoder
        self.length = length
        self.sliding = sliding

    def forward(self, token: torch.Tensor, position: torch.Tensor, *cache: torch.Tensor) -> Any:
        """Scores [batch, words] of the next token, and the changed cache, two tensors for each layer.

        Args:
            token: int64 [batch, 1].
            position: int64 [1], the number of earlier tokens.
            cache: float32 [batch, heads, length, width], keys and values of each layer in turn.
        """

        def written(old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
            return torch.cat([old[:, :, 1:], new], 2) if self.sliding else old.index_copy(2, position, new)

        places = torch.arange(self.length)
        filled = places >= self.length - 1 - position if self.sliding else places <= position
        given = GivenCache(cache, written)
        found = self.decoder(
            input_ids=token,
            position_ids=position[None],
            attention_mask=torch.where(filled, 0.0, float("-inf")).reshape(1, 1, 1, -1),
            past_key_values=given,
            use_cache=True,
        )
        return found.logits[:, -1], *given.tensors


def llama(length: int = 32, *, sliding: bool = False) -> DecoderStep:
    """A small LLaMA with random weights."""
    config = LlamaConfig(
        vocab_size=128,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    return DecoderStep(LlamaForCausalLM(config), length, sliding=sliding)


def gpt2(length: int = 32, *, sliding: bool = False) -> DecoderStep:
    """A small GPT-2 with random weights."""
    config = GPT2Config(vocab_size=128, n_embd=64, n_layer=2, n_head=4)
    return DecoderStep(GPT2LMHeadModel(config), length, sliding=sliding)


def decoded(
    step: Callable[..., Sequence[Any]], first: int, cache: Sequence[Any], steps: int
) -> tuple[list[int], list[Any]]:
    """Greedy tokens after `first`, and the scores of each step.

    Args:
        step: a compiled `DecoderStep`.
        cache: empty tensors of the cache.
    """
    token, tokens, scores = first, [], []
    for position in range(steps):
        found, *cache = step(np.array([[token]]), np.array([position]), *cache)
        token = int(np.argmax(found[0]))
        tokens.append(token)
        scores.append(found[0])
    return tokens, scores


def main(library: Path, steps: int = 16) -> None:
    """Decodes with a library that `foretune tune export=FILE` wrote."""
    network = foretune.load(library)  # executes code of the file: load only files that you trust
    cache = [np.zeros(spec.shape, spec.dtype) for spec in network.inputs[2:]]
    tokens, _ = decoded(network, 1, cache, steps)
    print(f"decoded {len(tokens)} tokens: {' '.join(map(str, tokens))}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
