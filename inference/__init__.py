"""Inference: a checkpoint inside the search of a stock TVM, and the tuning of whole networks with it.

`from foretune.inference import PretrainedCostModel` gives a cost model that `ms.tune_tir` and
`ms.relax_integration.tune_relax` take as it is.
"""

from .plugin import PretrainedCostModel

__all__ = ["PretrainedCostModel"]
