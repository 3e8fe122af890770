"""Choice of the compiler that links a library for the architecture of its target."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable
from typing import Any

from tvm.support import cc
from tvm.target import Target

from ...errors import UserError
from ..targets import is_cpu


class LinkerError(UserError, RuntimeError):
    """This machine has no compiler that links for the architecture of the target."""


def linker(target: Target) -> Callable[..., Any] | None:
    """Compiler for `export_library`, None where this machine's own links for the target.

    Raises LinkerError if the target has another architecture and no compiler for it is installed.
    """
    triple, architecture = _triple(target), architecture_of(target)
    if architecture == _known(platform.machine()):
        return None
    system = "linux-" + (triple.rpartition("-")[2] if "-linux-" in triple else "gnu")
    names = [f"{triple}-g++", f"{architecture}-{system}-g++"]
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        raise LinkerError(
            f"target: a library for mtriple={triple} is linked by a compiler for {architecture}, and this "
            f"machine has no {names[-1]}; install one (on Debian g++-{names[-1].removesuffix('-g++')}), or "
            f"use a machine with {architecture}"
        )
    compiler: Callable[..., Any] = cc.cross_compiler(found)
    return compiler


def architecture_of(target: Target) -> str:
    """Architecture of a target's host code, such as x86_64 or aarch64."""
    return _known(_triple(target).partition("-")[0] or platform.machine())


def _triple(target: Target) -> str:
    """LLVM's name of the system that the host code runs on; "" for this machine's."""
    host = target if is_cpu(target) else target.host
    return "" if host is None else str(host.attrs.get("mtriple", ""))


def _known(architecture: str) -> str:
    """Name of an architecture in the names of compilers: arm64 is aarch64, and armv7l is arm."""
    name = architecture.lower()
    if name.startswith("armv") and not name.startswith("armv8"):
        return "arm"
    return {"arm64": "aarch64", "amd64": "x86_64", "x86-64": "x86_64"}.get(name, name)
