"""Light profiler: the register tiles of this machine, measured once and stored (Bolt, section 3.2.2)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

from tvm.target import Target

from ....compiler.instruction_sets import Instruction
from ....compiler.templates.cpu.profile.tile_profile import TileCost, TileProfile, profile_path
from ....files import write_whole
from ...hardware import Hardware
from ...records.schema import FailureKind
from ..job import MeasureConfig
from .process import WorkerLostError, WorkerProcess, WorkerStartError, host_spec

_LOG = logging.getLogger(__name__)

TIMEOUT_S = 60.0
"""Seconds after which a measurement counts as failed; each data type normally needs one to three."""


class LightProfiler:
    """Profile of the register tiles of a target on this machine, whose CPU runs the target's programs."""

    def __init__(
        self,
        target: Target,
        hardware: Hardware,
        *,
        anew: bool = False,
        alone: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        """`anew` repeats earlier runs' measurements; `alone`, entered meanwhile, can pause other work."""
        self._target = target
        self._hardware = hardware
        self._path = profile_path(target, hardware)
        self._alone = alone
        self._profile = TileProfile({}) if anew else _kept(self._path)
        self._failed: set[Instruction] = set()

    def profile(self, instructions: Iterable[Instruction]) -> TileProfile | None:
        """Costs of all register tiles for these instructions; measures the missing ones.

        None if measuring fails, with a line in the log, or if the caches are unknown.
        """
        wanted = [instruction for instruction in instructions if not self._profile.has(instruction)]
        unknown = not (self._hardware.l1_bytes and self._hardware.l2_bytes)
        if unknown or self._failed.intersection(wanted):
            return None
        if wanted:
            try:
                with self._alone():
                    measured = self._measured(wanted)
                self._profile = TileProfile({**self._profile.costs, **measured})
            except (WorkerLostError, WorkerStartError, RuntimeError) as error:
                _LOG.warning("templates are ranked by estimates: measuring register tiles failed: %s", error)
                self._failed.update(wanted)
                return None
            self._keep()
        return self._profile

    def _measured(self, instructions: list[Instruction]) -> dict[str, TileCost]:
        names = [instruction.name for instruction in instructions]
        caches = {"l1_bytes": self._hardware.l1_bytes, "l2_bytes": self._hardware.l2_bytes}
        worker = WorkerProcess(host_spec("tile_timer", self._target, MeasureConfig()))
        try:
            worker.wait_ready()
            worker.send({"op": "profile", "instructions": names, **caches})
            reply = worker.receive(TIMEOUT_S, FailureKind.RUN_TIMEOUT)
        finally:
            worker.kill()
        if "costs" not in reply:
            raise RuntimeError(reply.get("error", "no answer"))
        return {name: TileCost(*numbers) for name, numbers in reply["costs"].items()}

    def _keep(self) -> None:
        """Writes the file whole or not at all; nothing is stored in a read-only folder."""
        with suppress(OSError):
            write_whole(self._path, self._profile.to_json())


def _kept(path: Path) -> TileProfile:
    try:
        return TileProfile.from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        _LOG.warning("%s: %s; the register tiles are measured anew", path, error)
    return TileProfile({})
