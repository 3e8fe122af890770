"""OpenVINO."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from .base import Call, Engine, Form, Source


class OpenVino(Engine):
    """OpenVINO on the CPU with the hint for latency, in the data type asked for, whatever its default is."""

    title = "OpenVINO"
    form = Form.ONNX
    module = package = "openvino"
    dtypes = ("float32", "bfloat16")

    def prepare(self) -> None:
        """See Engine."""
        import openvino  # noqa: F401

    def load(self, source: Source) -> Call:
        """See Engine."""
        import openvino

        core = openvino.Core()
        model = core.read_model(str(source.path))
        if model.is_dynamic():
            model.reshape({index: list(array.shape) for index, array in enumerate(source.inputs)})
        options = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "bf16" if self.dtype == "bfloat16" else "f32",
            "INFERENCE_NUM_THREADS": str(self.threads),
        }
        compiled = core.compile_model(model, "CPU", options)
        if compiled.get_property("INFERENCE_PRECISION_HINT") != openvino.Type.bf16:
            self.dtype = "float32"  # asked for, or the CPU has no instructions for the other
        request = compiled.create_infer_request()
        for index, array in enumerate(source.inputs):
            request.set_input_tensor(index, openvino.Tensor(array, shared_memory=True))

        def call() -> Any:
            request.infer()
            return request

        return call

    def arrays(self, outputs: Any) -> list[NDArray[Any]]:
        """See Engine."""
        count = len(outputs.model_outputs)
        return [outputs.get_output_tensor(index).data.copy() for index in range(count)]
