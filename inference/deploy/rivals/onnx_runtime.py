"""ONNX Runtime."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from .base import Bind, Call, Engine, Form, NetworkSource


class OnnxRuntime(Engine):
    """ONNX Runtime on the CPU with all graph optimisations; a quantised file makes it run in int8."""

    title = "ONNX Runtime"
    form = Form.ONNX
    module = package = "onnxruntime"
    dtypes = ("float32", "int8")

    def prepare(self) -> None:
        """See Engine."""
        import onnxruntime  # noqa: F401

    def load(self, source: NetworkSource) -> Bind:
        """See Engine."""
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        session = ort.InferenceSession(str(source.path), options, providers=["CPUExecutionProvider"])
        names = [value.name for value in session.get_inputs()]

        def bind(inputs: tuple[NDArray[Any], ...]) -> Call:
            feed = dict(zip(names, inputs, strict=True))
            return lambda: session.run(None, feed)

        return bind
