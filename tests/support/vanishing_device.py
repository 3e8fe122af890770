"""Timing process of a device that disappears: after two programs it fails and does not come back."""

import json
import shutil
from pathlib import Path

from foretune.dataset.measure import MeasureConfig
from foretune.dataset.measure.worker.loop import main
from foretune.dataset.measure.worker.roles import Device
from tvm.target import Target

_PROGRAMS = 2


class VanishingDevice(Device):
    """Device that is there as long as its folder is."""

    def prepare(self):
        self._left = _PROGRAMS
        if not Path(self.settings["folder"]).exists():
            raise RuntimeError("no vanishing device")
        super().prepare()

    def usable(self):
        return Path(self.settings["folder"]).exists()

    def time(self, **request):
        if not self._left:
            shutil.rmtree(self.settings["folder"])
            raise RuntimeError("CUDA_ERROR_UNKNOWN: GPU is lost")
        self._left -= 1
        return super().time(**request)


if __name__ == "__main__":
    main(
        lambda role, target, config, settings: VanishingDevice(
            Target(json.loads(target)), MeasureConfig(**config), **settings
        )
    )
