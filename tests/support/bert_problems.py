"""Problems of a layer of BERT-base by short names, those that `benchmarks.gpu_templates` measures."""

from __future__ import annotations

from foretune.compiler.templates.gpu.problem import Problem

from benchmarks.gpu_templates.problems import HEADS, ONE_TEXT

__all__ = ["BERT", "HEADS"]

_NAMES = (
    *("query", "first", "second", "output with layer norm", "second with layer norm"),
    *("layer norm", "softmax", "attention"),
)

BERT: dict[str, Problem] = dict(zip(_NAMES, ONE_TEXT.values(), strict=True))
