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
    their own. Of the other columns it has those that all members have.
    """

    def __init__(self, members: Sequence[CostModel]) -> None:
        """Raises ValueError for no members."""
        super().__init__()
        if not members:
            raise ValueError("no members: give one or more")
        self.members: nn.ModuleList = nn.ModuleList(members)
        shared = set.intersection(*(set(member.columns) for member in members)) - {LOG_VARIANCE}
        self._means = tuple(name for name in members[0].columns if name in shared)
        self.columns = (*self._means, LOG_VARIANCE)

    def forward(self, features: FeatureTensors) -> Tensor:
        """[n] outputs; see `CostModel.forward`."""
        return self.all_columns(features)[:, 0]

    def all_columns(self, features: FeatureTensors) -> Tensor:
        """[n, columns] outputs; see `CostModel.all_columns`."""
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
    """The members of an ensemble; a model that is none stands for itself."""
    return list(model.members) if isinstance(model, EnsembleCostModel) else [model]  # type: ignore[arg-type]
