"""Networks tuned in int8 by templates alone, where this CPU has the instructions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from foretune.compiler.networks import load_network
from foretune.compiler.networks.low_precision.calibration import CalibrationError
from foretune.compiler.networks.low_precision.quantisation import quantised
from foretune.compiler.targets import MissingInstructionError, target_instructions
from foretune.inference.deploy.load import load
from foretune.inference.report.facts import facts
from foretune.inference.run.config import TuneConfig
from foretune.inference.run.result_file import load_result
from foretune.inference.tune import run
from rich.console import Console
from support.cpus import HERE, TYPES, multiplies
from support.template_runs import UNTUNED, template_run
from tvm.support.cc import get_cc

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

SERVER = "target={kind: llvm, mcpu: sapphirerapids, num-cores: 2}"
WIDENED = any(one.widens for one in target_instructions(HERE, *TYPES["int8"]))
links = pytest.mark.skipif(get_cc() is None, reason="no C++ compiler")


def settings(folder: Path, *overrides: str) -> TuneConfig:
    return template_run(folder, "lowering.dtype=int8", *overrides)


@pytest.mark.cpu
@pytest.mark.slow
@multiplies("int8")
@links
def test_a_network_is_quantised_and_tuned_beside_rivals_in_int8(tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    library = tmp_path / "network.so"
    result = run(settings(tmp_path, f"export={library}", "rivals=[onnxruntime,openvino]", *UNTUNED))
    products = [task for task in result.tasks if task.operator == "conv2d"]
    assert products and all(task.candidates_measured == 2 and not task.failures for task in products)
    assert result.outputs_match and result.agreement is not None and result.agreement.top_1 > 0.8
    assert result.agreement.rival == "ONNX Runtime" and result.agreement.rival_top_1 is not None
    errors = {one.name: one.error for one in result.contestants}
    assert set(errors) == {"tuned TVM", "untuned TVM", "ONNX Runtime", "OpenVINO"}
    assert {one.dtype for one in result.contestants} == {"int8"} and not errors["tuned TVM"]
    # Sums of the rivals saturate at 16 bits on a CPU without VNNI.
    saturating = ("ONNX Runtime", "OpenVINO") if WIDENED else ()
    for name, error in errors.items():
        assert not error or (name in saturating and error.startswith("other outputs"))
    document = tmp_path / "report" / "report.json"
    assert load_result(document).agreement == result.agreement
    assert any(fact.label == "Top-1 agreement in int8" for fact in facts(result))
    assert (tmp_path / "report" / "quantised.onnx").exists()
    assert np.isfinite(load(library)(np.ones((1, 64, 8, 8), np.float32))).all()
    # Older reports name the rival's figures after PyTorch.
    older = json.loads(document.read_text())
    del older["agreement"]["rival"]
    older["agreement"] = {name.replace("rival_", "pytorch_"): v for name, v in older["agreement"].items()}
    document.write_text(json.dumps(older))
    agreement = load_result(document).agreement
    assert agreement is not None and (agreement.rival, agreement.top_1) == ("PyTorch", result.agreement.top_1)


@pytest.mark.cpu
@pytest.mark.slow
@multiplies("int8")
def test_a_quantised_file_of_a_transformer_block_is_tuned_as_it_is(tmp_path: Path) -> None:
    network = load_network("support.networks:TransformerBlock", inputs=[[1, 8, 32]])
    path = quantised(network, None, tmp_path / "block.onnx").quantised_path
    console = Console(record=True, width=200)
    result = run(settings(tmp_path, f"network={path}", "inputs=null", "rivals=[]"), console)
    assert result.outputs_match and result.agreement is not None and result.agreement.top_1 > 0.8
    assert sum(task.weight for task in result.tasks if task.operator == "dense") == 6
    assert not (tmp_path / "report" / "quantised.onnx").exists()
    shown = console.export_text()
    assert "quantised by" not in shown
    assert result.float_products == 2 and "2 products have no form in int8 and stay float32" in shown


@pytest.mark.slow
@multiplies("int8")
def test_a_set_searches_the_integer_products_that_its_networks_run(tmp_path: Path) -> None:
    shapes = "inputs=[[[1,64,8,8]],[[1,64,4,4]]]"
    whole = run(settings(tmp_path, "network=support.networks:Convolutions", shapes, "rivals=[]"))
    assert [(one.error, one.outputs_match) for one in whole.networks] == [("", True)] * 2
    for one in whole.networks:
        own = load_result(tmp_path / "report" / one.name / "report.json")
        products = [task for task in own.tasks if task.operator == "conv2d"]
        assert products and all(task.tuned_latency_s for task in products) and own.float_products == 0
        assert not any(task.candidates_measured for task in own.tasks)


def test_a_target_without_int8_ends_a_run_before_its_search(tmp_path: Path) -> None:
    target = "target={kind: llvm, mcpu: ivybridge, num-cores: 1}"  # AVX without AVX2
    with pytest.raises(MissingInstructionError, match=r"target=ivybridge.*avx512vnni.* or avx2, or another"):
        run(settings(tmp_path, "network=support.networks:Convolutions", "inputs=[[1,64,8,8]]", target))
    assert not (tmp_path / "database").exists()


def test_calibration_inputs_that_do_not_fit_end_a_run_before_its_search(tmp_path: Path) -> None:
    np.savez(tmp_path / "inputs.npz", np.zeros((4, 3, 8, 8), np.float32))
    with pytest.raises(CalibrationError, match=r"lowering\.calibration=.*\[4, 3, 8, 8\].*\[1, 64, 8, 8\]"):
        run(
            settings(
                tmp_path,
                *("network=support.networks:Convolutions", "inputs=[[1,64,8,8]]", SERVER, "executor=dry_run"),
                *(f"lowering.calibration={tmp_path / 'inputs.npz'}", "rivals=[]"),
            )
        )
