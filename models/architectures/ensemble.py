"""Deep ensembles of models trained alike from different initialisations (Lakshminarayanan et al. 2017).

The disagreement of the members measures the uncertainty that the training records leave.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..scaling.columns import LOG_VARIANCE
from .cost_model import CostModel, FeatureTensors

_LEAST_VARIANCE = 1e-10  # keeps the logarithm finite if all members agree exactly


class EnsembleCostModel(CostModel):
    """Mean of several models, with their spread as the variance of the primary output.

    The members form a mixture with equal weights (section 2.4 of the paper). Its mean and variance are
    m = mean_i(m_i) and v = mean_i(v_i) + mean_i((m_i - m)^2), where v_i is 0 for a member without a variance.
    The ensemble has those other columns that all members have.
    """

    def __init__(self, members: Sequence[CostModel]) -> None:
        """Raises ValueError if `members` is empty."""
        super().__init__()
        if not members:
            raise ValueError("members is empty: give one model or more")
        self.members: nn.ModuleList = nn.ModuleList(members)
        shared = set.intersection(*(set(member.columns) for member in members)) - {LOG_VARIANCE}
        self._means = tuple(name for name in members[0].columns if name in shared)
        self.columns = (*self._means, LOG_VARIANCE)

    def forward(self, features: FeatureTensors) -> Tensor:
        """Primary outputs [n]; see `CostModel.forward`."""
        return self.all_columns(features)[:, 0]

    def rescale(self, slope: float, offset: float) -> None:
        """Rescales all members; see `CostModel.rescale`."""
        for member in members_of(self):
            member.rescale(slope, offset)

    def all_columns(self, features: FeatureTensors) -> Tensor:
        """All outputs [n, columns]; see `CostModel.all_columns`."""
        means, own = [], []  # [n, means] and [n] of each member
        for member in members_of(self):
            of = dict(zip(member.columns, member.all_columns(features).unbind(dim=-1), strict=True))
            means.append(torch.stack([of[name] for name in self._means], dim=-1))
            own.append(of[LOG_VARIANCE].exp() if LOG_VARIANCE in of else torch.zeros_like(means[-1][:, 0]))
        each = torch.stack(means)
        variance = each[..., 0].var(dim=0, correction=0) + torch.stack(own).mean(dim=0)  # [n]
        log_variance = variance.clamp(min=_LEAST_VARIANCE).log()
        return torch.cat([each.mean(dim=0), log_variance.unsqueeze(-1)], dim=-1)


def members_of(model: CostModel) -> list[CostModel]:
    """Members of an ensemble; the model itself if it is not an ensemble."""
    return list(model.members) if isinstance(model, EnsembleCostModel) else [model]  # type: ignore[arg-type]
