"""Training of some parameters of a model while the others are frozen."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from ...configuration import ConfigError


def train_only(members: Sequence[nn.Module], parts: Sequence[str]) -> int:
    """Freezes every parameter outside the named parts; without names all parameters are trained.

    Args:
      members: members of an ensemble, or one model.
      parts: dotted names of modules or parameters, such as "head" or "encoder.layers.2". At least one member
        must have each; a member that has none is frozen.

    Returns:
      Number of scalars that are trained.

    Raises:
      ConfigError: no member has a part of that name.
    """
    named = [named for member in members for named in member.named_parameters()]
    for part in parts:
        if not any(_is_in(name, part) for name, _ in named):
            tops = dict.fromkeys(name.partition(".")[0] for name, _ in named)
            raise ConfigError(f"train_only={part!r}: the model has no such part; it has {', '.join(tops)}")
    for name, parameter in named:
        parameter.requires_grad_(not parts or any(_is_in(name, part) for part in parts))
    return sum(parameter.numel() for _, parameter in named if parameter.requires_grad)


def _is_in(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}.")
