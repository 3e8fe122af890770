"""An ONNX file with symbolic extents, from `foretune tune` to its library, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import foretune
import numpy as np
import onnx
import onnxruntime
import pytest
from foretune.compiler.dynamic.symbols import DynamicShapeError
from foretune.inference.dynamic.result import DynamicResult
from foretune.inference.run.config import TuneConfig
from foretune.inference.tune import run
from onnx import TensorProto, helper
from rich.console import Console
from support.tuning import PREDICTED
from tvm.support.cc import get_cc

pytestmark = pytest.mark.skipif(get_cc() is None, reason="no C++ compiler")


def saved(path: Path, rest: int) -> Path:
    """Attention of two heads over a symbolic length: heads are split by Shape, Gather, Concat and Reshape."""

    def node(operator: str, *inputs: str, to: str, **attributes: object) -> onnx.NodeProto:
        return helper.make_node(operator, list(inputs), [to], name=f"to_{to}", **attributes)

    nodes = [
        node("MatMul", "x", "w", to="projected"),
        node("Shape", "projected", to="s"),
        node("Gather", "s", "first", to="b", axis=0),
        node("Gather", "s", "second", to="n", axis=0),
        node("Concat", "b", "n", "heads", to="split", axis=0),
        node("Reshape", "projected", "split", to="apart"),
        node("Transpose", "apart", to="q", perm=[0, 2, 1, 3]),
        node("Transpose", "apart", to="k", perm=[0, 2, 3, 1]),
        node("MatMul", "q", "k", to="scores"),
        node("Softmax", "scores", to="weights", axis=-1),
        node("MatMul", "weights", "q", to="mixed"),
        node("Transpose", "mixed", to="back", perm=[0, 2, 1, 3]),
        node("Concat", "b", "n", "rest", to="joined", axis=0),
        node("Reshape", "back", "joined", to="y"),
    ]
    constants = {
        "w": np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32) / 4,
        **{"first": np.array([0]), "second": np.array([1]), "heads": np.array([2, 8])},
        "rest": np.array([rest]),
    }
    graph = helper.make_graph(
        nodes,
        "attention",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "length", 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def config(folder: Path, path: Path) -> TuneConfig:
    return TuneConfig(
        network=str(path),
        output=folder / "report",
        database=folder / "database",
        dims={"batch": "1:2", "length": "1:20"},
        export=folder / "net.so",
        search=PREDICTED,
    )


def test_the_library_computes_what_onnx_runtime_computes(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx", 16)
    result = run(config(tmp_path, path), Console(quiet=True))
    assert isinstance(result, DynamicResult) and not result.plain
    network = foretune.load(tmp_path / "net.so")
    assert "x: float32 [batch, length, 16]" in repr(network)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(1)
    for batch, length in ((1, 1), (2, 7), (1, 20), (2, 13)):
        x = rng.standard_normal((batch, length, 16)).astype(np.float32)
        np.testing.assert_allclose(network(x), session.run(None, {"x": x})[0], rtol=1e-4, atol=1e-5)


def test_a_size_in_the_file_that_only_fits_one_length_is_named(tmp_path: Path) -> None:
    settings = config(tmp_path, saved(tmp_path / "net.onnx", 16))
    model = onnx.load(tmp_path / "net.onnx")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((1, 7, 16), np.float32), "seven"))
    model.graph.node[0].input[0] = "sum"
    model.graph.node.insert(0, helper.make_node("Add", ["x", "seven"], ["sum"], name="the_sum"))
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(DynamicShapeError, match=r"length=7 alone.*Add \(node the_sum\)"):
        run(settings, Console(quiet=True))
