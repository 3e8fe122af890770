"""Deep ensembles: several models trained alike from different initialisations (Lakshminarayanan et al. 2017).

Where the members disagree, the records have not settled what is right.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .columns import LOG_VARIANCE
from .cost_model import CostModel, FeatureTensors

_LEAST_VARIANCE = 1e-10  # members that agree to the last bit leave a finite logarithm


class EnsembleCostModel(CostModel):
    """The mean of its members, with their spread as the variance of the primary output.

    The members count as a mixture of equal weights (section 2.4 of the paper), of which mean and variance are
    m = mean_i(m_i) and v = mean_i(v_i) + mean_i((m_i - m)^2); v_i is 0 for members without a variance of
    their own.
    """

    def __init__(self, members: Sequence[CostModel]) -> None:
        """Raises ValueError for no members, or members of different columns."""
        super().__init__()
        if not members or any(member.columns != members[0].columns for member in members):
            raise ValueError(f"{len(members)} members: give one or more with equal columns")
        self.members: nn.ModuleList = nn.ModuleList(members)
        self._means = tuple(name for name in members[0].columns if name != LOG_VARIANCE)
        self.columns = (*self._means, LOG_VARIANCE)

    def forward(self, features: FeatureTensors) -> Tensor:
        """[n] outputs; see `CostModel.forward`."""
        return self.all_columns(features)[:, 0]

    def all_columns(self, features: FeatureTensors) -> Tensor:
        """[n, columns] outputs; see `CostModel.all_columns`."""
        each = torch.stack(
            [member.all_columns(features) for member in members_of(self)]
        )  # [members, n, columns]
        means, own = each[..., : len(self._means)], each[..., len(self._means) :]
        variance = means[..., 0].var(dim=0, correction=0) + own.exp().sum(dim=-1).mean(dim=0)  # [n]
        log_variance = variance.clamp(min=_LEAST_VARIANCE).log()
        return torch.cat([means.mean(dim=0), log_variance.unsqueeze(-1)], dim=-1)


def members_of(model: CostModel) -> list[CostModel]:
    """The members of an ensemble; a model that is none stands for itself."""
    return list(model.members) if isinstance(model, EnsembleCostModel) else [model]  # type: ignore[arg-type]
