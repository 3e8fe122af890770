"""Back-to-back fusion: which calls are offered as one function, and what that function computes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
from foretune.compiler.networks import Lowering
from foretune.compiler.networks.alternatives.alternatives import call_counts, with_alternatives
from foretune.compiler.networks.alternatives.fusion import fusion_alternatives
from foretune.compiler.networks.lowering.lowering import LoweringError
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.deploy.compile import compile_network
from foretune.inference.deploy.outputs import compare_outputs

from tests.support.chains import Lowered, lowered, outputs
from tests.support.cpus import HERE, cpu, multiplies, require

pytestmark = pytest.mark.cpu

SERVER, NARROW = cpu("x86-64-v4"), cpu("x86-64-v4", "+avx512bf16")


def lengths(found: Lowered) -> list[int]:
    return sorted(len(alternative.piece.names) for alternative in found.found)


@pytest.mark.parametrize(
    ("name", "shape", "kwargs", "expected"),
    [
        ("LinearPair", [40, 24], {}, [2]),
        ("LinearPair", [40, 24], {"middle": 24}, []),  # no whole vectors
        ("LinearPair", [40, 24], {"also": True}, []),  # two consumers
        ("ConvolutionPair", [1, 8, 10, 12], {}, [2]),
        ("ConvolutionPair", [1, 8, 10, 12], {"stride": 2}, [2]),
        ("ConvolutionPair", [1, 8, 10, 12], {"kernel": 1}, [2]),
        ("ConvolutionPair", [1, 8, 10, 12], {"second": [1, 2, 0]}, []),  # stride
        ("ConvolutionPair", [1, 8, 10, 12], {"second": [1, 1, 1]}, []),  # padding
        ("ConvolutionPair", [1, 8, 10, 12], {"second": [3, 1, 1]}, []),  # a window
        # Depthwise and projection, or all three; expansion and depthwise end in no product.
        ("InvertedResidual", [1, 16, 10, 12], {}, [2, 3]),
        ("InvertedResidual", [1, 16, 10, 12], {"stride": 2}, [2, 3]),
        ("InvertedResidual", [1, 16, 10, 12], {"kernel": 5}, [2, 3]),
        ("InvertedResidual", [1, 16, 10, 12], {"expanded": 16, "multiplier": 3}, []),
    ],
)
def test_chains_that_are_offered(
    name: str, shape: list[int], kwargs: dict[str, object], expected: list[int]
) -> None:
    found = lowered(name, shape, SERVER, **kwargs)
    assert lengths(found) == expected
    for alternative in found.found:
        assert alternative.offer.calls == 1
        assert len(alternative.functions) == len(alternative.offer.tasks) == 1


def test_a_result_that_does_not_fit_the_second_cache_is_not_offered() -> None:
    """A line of 128 pixels and 1,024 channels has half a MiB; three lines of it more than half of one MiB."""
    assert lengths(lowered("ConvolutionPair", [1, 8, 2, 128], SERVER, middle=1024, kernel=1)) == [2]
    assert lengths(lowered("ConvolutionPair", [1, 8, 2, 160], SERVER, middle=1024, kernel=1)) == []


def test_nothing_is_offered_unless_asked_for() -> None:
    found = lowered("LinearPair", [40, 24], SERVER)
    assert fusion_alternatives(found.module, SERVER, Lowering()) == []
    assert (
        fusion_alternatives(found.module, parse_target("nvidia/nvidia-a100"), Lowering(fusion="auto")) == []
    )
    with pytest.raises(LoweringError, match=r"lowering\.fusion=on: use off or auto"):
        Lowering(fusion="on")


def expected(found: Lowered, data: np.ndarray) -> np.ndarray:
    """Output by PyTorch, channels last."""
    with torch.inference_mode():
        result = found.network.module(torch.from_numpy(data)).numpy()
    return np.moveaxis(result, 1, -1) if result.ndim == 4 else result


@multiplies("float32")
@pytest.mark.parametrize(
    ("name", "shape", "kwargs"),
    [
        ("LinearPair", [15, 24], {}),
        ("ConvolutionPair", [1, 8, 7, 9], {}),
        ("ConvolutionPair", [2, 8, 7, 9], {"stride": 2}),
        ("InvertedResidual", [1, 16, 8, 6], {"stride": 2}),
        ("InvertedResidual", [1, 16, 6, 7], {"stride": 2, "kernel": 5}),
    ],
)
def test_all_templates_agree_with_pytorch(name: str, shape: list[int], kwargs: dict[str, object]) -> None:
    found = lowered(name, shape, HERE, **kwargs)
    data = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    alternative = max(found.found, key=lambda each: len(each.piece.names))
    given = np.ascontiguousarray(np.moveaxis(data, 1, -1)) if data.ndim == 4 else data
    want, blocks = expected(found, data), set()
    for template, got in outputs(alternative, given, HERE):
        blocks.add(template.block)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4, err_msg=str(template))
    assert len(blocks) > 1


def test_products_in_bfloat16() -> None:
    require(NARROW)
    found = lowered("LinearPair", [32, 24], NARROW, dtype="bfloat16")
    (alternative,) = found.found
    data = np.random.default_rng(0).standard_normal([32, 24]).astype(np.float32)
    want = expected(found, data)
    templates = 0
    for template, got in outputs(alternative, data.astype(ml_dtypes.bfloat16), NARROW):
        templates += 1
        np.testing.assert_allclose(got, want, rtol=0, atol=0.03 * np.abs(want).max(), err_msg=str(template))
    assert templates > 1


def test_an_image_in_bfloat16_has_no_borders_in_registers() -> None:
    """TVM replaces no loops by an instruction where a condition leaves out lines beyond the image."""
    assert lengths(lowered("InvertedResidual", [1, 16, 10, 12], NARROW, dtype="bfloat16")) == []


@multiplies("float32")
def test_a_network_takes_a_fused_function_with_a_residual() -> None:
    """The sum with the input of the block is behind the projection of the first of two blocks."""
    found = lowered("support.chains:TwoBlocks", [1, 16, 8, 8], HERE)
    alternative = found.of_length(3)[0]
    changed = with_alternatives(found.module, [alternative])
    name = alternative.offer.tasks[0].workload_hash
    assert call_counts(changed)[name] == len(alternative.piece.sites)
    assert sum(call_counts(changed).values()) == sum(call_counts(found.module).values()) - 2 * len(
        alternative.piece.sites
    )
    ran = compile_network(changed, HERE)(*found.network.inputs)
    assert compare_outputs(found.network.reference_outputs(), ran).agrees
