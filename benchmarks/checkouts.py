"""Processes of this checkout of Foretune or of another one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from .common import ROOT, revision

KEPT_COMMIT = "FORETUNE_KEPT_COMMIT"
"""Environment variable with the commit under which the runs of this checkout are kept, instead of its own: a
campaign of several calls continues after results were committed between them."""


def commit_of(checkout: Path) -> str | None:
    """Commit of a checkout without the mark of changes, which identifies kept runs."""
    if checkout == ROOT and (kept := os.environ.get(KEPT_COMMIT)):
        return kept
    found = revision(checkout)
    return None if found is None else found.removesuffix("+changes")


def python_in(
    checkout: Path, arguments: Sequence[str], *, cwd: Path = ROOT, timeout_s: float | None = None
) -> str:
    """Runs `python` with `arguments` so that `import foretune` finds `checkout`; returns its output.

    Raises CalledProcessError or TimeoutExpired, after printing the end of stderr.
    """
    from foretune.compiler.host.lifeline import run_tied  # scripts without foretune import this module, too

    paths = [str(checkout.resolve() / ".typing"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(paths))
    try:
        command = [sys.executable, *arguments]
        return run_tied(command, cwd=cwd, env=environment, check=True, timeout=timeout_s).stdout
    except subprocess.SubprocessError as error:
        written = getattr(error, "stderr", None) or ""
        print(written[-3000:] if isinstance(written, str) else written[-3000:].decode(), file=sys.stderr)
        raise


def tune_command(checkout: Path) -> list[str]:
    """Arguments of `python` for `foretune tune` in a checkout, including one from before `foretune tune`."""
    if (checkout / "__main__.py").is_file():
        return ["-m", "foretune", "tune"]
    return ["-m", "foretune.inference.tune"]


def cause_of(error: Exception) -> str:
    """The last line that a failed command wrote to standard error, or the exception's text."""
    written = str(getattr(error, "stderr", None) or "").strip()
    return (written.splitlines() or [str(error)])[-1][-300:]
