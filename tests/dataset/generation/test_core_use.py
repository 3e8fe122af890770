"""Tests of the shares of the cores by stage."""

import os
import subprocess
import sys
import time

import pytest
from foretune.dataset.generation.core_use import IDLE, OTHER, CoreUse
from foretune.dataset.generation.progress import cores_text

BURN = """
import time
end = time.process_time() + {}
while time.process_time() < end:
    pass
print(flush=True)
input()
"""


def burner(seconds: float) -> subprocess.Popen:
    command = [sys.executable, "-c", BURN.format(seconds)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_each_stage_has_the_time_of_its_processes():
    pids = {"building": [], "sampling": []}
    use = CoreUse(lambda: pids)
    began, own = time.monotonic(), sum(os.times()[:2])
    with burner(0.6) as building, burner(0.3) as sampling:
        pids |= {"building": [building.pid], "sampling": [sampling.pid]}
        building.stdout.read(1), sampling.stdout.read(1)
        use.update()
        building.kill(), sampling.kill()
    pids |= {"building": [], "sampling": []}
    use.update()
    seconds = use.cpu_s()
    assert seconds["building"] == pytest.approx(0.6, abs=0.25)
    assert seconds["sampling"] == pytest.approx(0.3, abs=0.25)
    assert seconds[OTHER] <= sum(os.times()[:2]) - own + 0.1
    assert use.seconds == pytest.approx(time.monotonic() - began, abs=0.5)
    shares = use.shares()
    assert shares["building"] == pytest.approx(seconds["building"] / (use.cores * use.seconds))
    assert sum(shares.values()) == pytest.approx(1.0, abs=0.01)
    assert 0 <= shares[IDLE] < 1


def test_shares_as_text_begin_with_the_largest():
    shares = {"sampling": 0.3, "building": 0.6, "timing": 0.001, IDLE: 0.099}
    assert cores_text(shares) == "cores 90% busy (building 60%, sampling 30%)"
    assert cores_text({}) == "cores 0% busy"
