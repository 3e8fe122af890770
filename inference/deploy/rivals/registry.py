"""Rivals by their name in `tune rivals=[...]`."""

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
"""Name -> module and class; a location without a dot names a module of another package."""

DEFAULT_RIVALS = ("eager", "eager_channels_last", "onnxruntime", "openvino")
"""Rivals that are ready within seconds."""

LIBRARY = ".tvm_library:TvmLibrary"
"""Engine of the tuned and the untuned network, which do not count as rivals."""


class UnknownRivalError(UserError, ValueError):
    """No rival has this name, or a name occurs twice."""


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
