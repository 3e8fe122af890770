"""OpenVINO."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from ....compiler.types import INT8, NETWORK_DTYPES, STORED, WIDE, data_type
from .base import Bind, Call, Engine, Form, NetworkSource


class OpenVino(Engine):
    """OpenVINO on the CPU with its latency hint, in the requested data type, whatever the default is.

    With a quantised file, OpenVINO multiplies integers; the float32 hint applies to the other operators.
    """

    title = "OpenVINO"
    form = Form.ONNX
    module = package = "openvino"
    dtypes = NETWORK_DTYPES

    def prepare(self) -> None:
        """See Engine."""
        import openvino  # noqa: F401

    def load(self, source: NetworkSource) -> Bind:
        """See Engine."""
        import openvino

        core = openvino.Core()
        model = core.read_model(str(source.path))
        if model.is_dynamic():
            shapes = source.bounds or tuple(array.shape for array in source.inputs)
            model.reshape(
                {
                    index: openvino.PartialShape(list(map(_dimension, shape)))
                    for index, shape in enumerate(shapes)
                }
            )
        traits = data_type(self.dtype)
        hint = traits.short if traits.network == STORED else data_type(WIDE).short
        options = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": hint,
            "INFERENCE_NUM_THREADS": str(self.threads),
        }
        compiled = core.compile_model(model, "CPU", options)
        if self.dtype == INT8:
            self.dtype = INT8 if _multiplies_integers(compiled) else WIDE
        elif compiled.get_property("INFERENCE_PRECISION_HINT") != getattr(openvino.Type, hint):
            self.dtype = WIDE  # the CPU has no instructions for the other
        request = compiled.create_infer_request()

        def call() -> Any:
            request.infer()
            return request

        def bind(inputs: tuple[NDArray[Any], ...]) -> Call:
            self._inputs = inputs  # the request has only their addresses
            for index, array in enumerate(inputs):
                request.set_input_tensor(index, openvino.Tensor(array, shared_memory=True))
            return call

        return bind

    def arrays(self, outputs: Any) -> list[NDArray[Any]]:
        """See Engine."""
        count = len(outputs.model_outputs)
        return [outputs.get_output_tensor(index).data.copy() for index in range(count)]


def _dimension(extent: int | tuple[int, int]) -> Any:
    import openvino

    return openvino.Dimension(extent) if isinstance(extent, int) else openvino.Dimension(*extent)


_PRODUCTS = ("Convolution", "FullyConnected", "MatMul")
"""OpenVINO's names for operators that multiply."""


def _multiplies_integers(compiled: Any) -> bool:
    """Whether a product of the compiled network has 8-bit operands."""
    facts = [operator.get_rt_info() for operator in compiled.get_runtime_model().get_ops()]
    return any(
        fact["layerType"].astype(str) in _PRODUCTS and fact["runtimePrecision"].astype(str) in ("u8", "i8")
        for fact in facts
        if "layerType" in fact
    )
