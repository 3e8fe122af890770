"""Default rules, templates and oneDNN on one layer."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
import torch
import tvm
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.deploy.runners import RunnerError

from benchmarks.templates import contest
from benchmarks.templates.contest import Found, Ring, scheduled
from benchmarks.templates.contestants import OfOneDnn, convolution, linear, values
from benchmarks.templates.shapes import TYPES, Convolution, Linear, flops_of

pytestmark = pytest.mark.cpu


def require_onednn(dtype: str) -> None:
    """Skips a test that needs oneDNN's kernels in a data type; those in bfloat16 ask for instructions."""
    if dtype == "bfloat16" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("oneDNN has no kernels in bfloat16 for this CPU: it lacks AVX-512 and avx_ne_convert")


@pytest.mark.parametrize("dtype", TYPES)
def test_onednn_multiplies_and_adds_the_bias(dtype: str) -> None:
    require_onednn(dtype)
    with torch.inference_mode():
        found = linear(dtype, rows=5, columns=16, depth=32)()
    data, weight = values((5, 32), "float32"), values((16, 32), "float32")
    np.testing.assert_allclose(found.float(), torch.relu(data @ weight.T + 1), rtol=1e-2)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kernel", [1, 3])
def test_onednn_convolves_and_adds_the_bias(dtype: str, kernel: int) -> None:
    require_onednn(dtype)
    with torch.inference_mode():
        found = convolution(dtype, size=6, channels=16, filters=8, kernel=kernel)()
    data, weight = values((1, 16, 6, 6), "float32"), values((8, 16, kernel, kernel), "float32")
    expected = torch.relu(torch.nn.functional.conv2d(data, weight, torch.ones(8), padding=kernel // 2))
    np.testing.assert_allclose(found.float(), expected, rtol=1e-2)


def test_a_loaded_layer_takes_turns() -> None:
    process = OfOneDnn(threads=torch.get_num_threads())
    process.prepare()
    process.load("small", "float32", {"rows": 4, "columns": 16, "depth": 32})
    assert process.turn("small", 0.0)["latency_s"] > 0
    process.clear()
    with pytest.raises(KeyError):
        process.turn("small", 0.0)


def test_operations_of_layers_by_hand() -> None:
    assert flops_of(Linear(2, 3, 5).task("float32")) == 2 * 2 * 3 * 5
    assert flops_of(Convolution(4, 8, 16, 3).task("float32")) == 2 * 4 * 4 * 8 * 16 * 9


@pytest.mark.slow
def test_contestants_run_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that finds nothing is a row with its reason; the others are timed all the same."""
    monkeypatch.setattr(contest, "TURNS", 2)
    monkeypatch.setattr(contest, "TURN_S", 0.02)
    target, layer = parse_target("llvm"), Linear(16, 64, 32)
    with closing(Ring(target, 1)) as ring:
        assert ring.target.attrs["num-cores"] == 1
        (_, program), _ = scheduled(layer.task("float32"), ring.target, 2)
        lost = ring.measured(layer, "float32", Found(), count=2)
        found = Found(tvm.ir.save_json(program), seconds=3.0, detail="2 trials")
        won = ring.measured(layer, "float32", found, count=2)
    lost_rows, rows = ({row["contestant"]: row for row in each["rows"]} for each in (lost, won))
    assert lost_rows["default_rules"]["error"] == "the search found no program that runs"
    assert all(0 < lost_rows[name]["share_of_peak"] < 1.5 for name in ("templates", "onednn"))
    assert rows["templates"]["detail"] in won["peak_gflops"]
    assert rows["default_rules"]["detail"] == "2 trials" and rows["default_rules"]["ready_s"] == 3.0


def test_a_search_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lost:
        def ask(self, op: str, **request: object) -> dict[str, object]:
            raise RunnerError("it died")

    monkeypatch.setattr(Ring, "tvm", Lost())
    with closing(Ring(parse_target("llvm"), 1)) as ring:
        assert ring.searched(Linear(16, 64, 32), "float32", trials=2) == Found(error="it died")
