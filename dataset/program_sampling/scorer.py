"""Cost models that guide exploration during dataset generation."""

from __future__ import annotations

from collections.abc import Callable

from tvm.s_tir import meta_schedule as ms

from .sampler import SamplingError


def make_scorer(name: str, warm_up: int) -> Callable[[], ms.CostModel]:
    """Factory of the cost model that guides exploration: `xgboost` (as in the paper) or `random`.

    XGBoost predicts at random until it has `warm_up` candidates. Raises SamplingError.
    """
    if name == "xgboost":
        try:
            import xgboost  # noqa: F401
        except ImportError as error:
            raise SamplingError(
                "program_sampling.scorer=xgboost needs xgboost: run `pip install 'foretune[xgboost]'`, or "
                "use program_sampling.scorer=random"
            ) from error
        return lambda: ms.cost_model.XGBModel(num_tuning_cores=1, num_warmup_samples=warm_up)
    if name == "random":
        return ms.cost_model.RandomModel
    raise SamplingError(f"program_sampling.scorer={name!r}: unknown; use xgboost or random")
