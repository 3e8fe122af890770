"""The cost models that guide exploration while a dataset is made."""

from __future__ import annotations

from collections.abc import Callable

from tvm.s_tir import meta_schedule as ms

from .sampler import SamplingError


def make_scorer(name: str, warm_up: int) -> Callable[[], ms.CostModel]:
    """A factory of the cost model that guides exploration: `xgboost` (as in the paper) or `random`.

    XGBoost proposes at random until it has seen `warm_up` candidates.
    """
    if name == "xgboost":
        try:
            import xgboost  # noqa: F401
        except ImportError as error:
            raise SamplingError(
                "program_sampling.scorer=xgboost: xgboost is not installed; pip install "
                "'foretune[xgboost]', or use program_sampling.scorer=random"
            ) from error
        return lambda: ms.cost_model.XGBModel(num_tuning_cores=1, num_warmup_samples=warm_up)
    if name == "random":
        return ms.cost_model.RandomModel
    raise SamplingError(f"program_sampling.scorer={name!r}: use xgboost or random")
