"""Rivals by the name that `tune rivals=[...]` takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module

from ....errors import UserError
from .base import Engine

RIVALS: Mapping[str, str] = {
    "eager": ".eager:Eager",
    "eager_channels_last": ".eager:EagerChannelsLast",
    "inductor": ".inductor:Inductor",
    "inductor_max_autotune": ".inductor:InductorMaxAutotune",
    "onnxruntime": ".onnx_runtime:OnnxRuntime",
    "openvino": ".open_vino:OpenVino",
}
"""Name -> module and class; without the dot, a module of another package."""

DEFAULT_RIVALS = ("eager", "eager_channels_last", "onnxruntime", "openvino")
"""Those that are ready within seconds."""

LIBRARY = ".tvm_library:TvmLibrary"
"""Engine of the tuned and of the untuned network, which are no rivals."""


class UnknownRivalError(UserError, ValueError):
    """No rival has this name, or one is named twice."""


def check_rivals(names: Sequence[str]) -> None:
    """Raises UnknownRivalError."""
    for position, name in enumerate(names):
        if name not in RIVALS:
            close = get_close_matches(name, RIVALS, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise UnknownRivalError(f"rivals={name}: unknown; {hint}Use some of {', '.join(RIVALS)}")
        if name in names[:position]:
            raise UnknownRivalError(f"rivals={name}: named twice; name each rival once")


def engine_class(location: str) -> type[Engine]:
    """Class of a location in RIVALS."""
    module, _, name = location.partition(":")
    found: type[Engine] = getattr(import_module(module, __package__), name)
    return found
