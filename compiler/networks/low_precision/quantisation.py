"""Quantised networks: ONNX files in QDQ form, given as such or made by post-training static quantisation.

ONNX Runtime quantises: unsigned activations with one scale each, signed weights with one for each output
channel. The file is tuned, and rivals that read ONNX files run it. Works without TVM.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from numpy.typing import NDArray

from ....errors import UserError
from ....files import written_whole
from ...types import INT8
from ..importing import onnx_import
from ..importing.onnx_export import export_onnx
from ..importing.onnx_import import in_thread
from ..known import require_extra
from ..loading import Network, kind_and_line
from .calibration import calibration_inputs

_QUANTISED = ("Conv", "Gemm", "MatMul", "MaxPool", "Relu", "Clip")
"""Operators that are quantised. Rounding to unsigned integers replaces a ReLU after a product."""

_IN_FLOAT = ("Gemm", "MatMul")
"""Operators whose results stay float32, since a bias, an activation or a norm follows in float32."""

_FORM = "DequantizeLinear"
"""Operator that each network in QDQ form has."""

_OPERATOR_FORM = ("ConvInteger", "MatMulInteger", "DynamicQuantizeLinear", "QGemm", "MatMulNBits")
"""Quantised operators of other forms, besides those whose names begin with QLinear."""


class QuantisationError(UserError, ValueError):
    """The network cannot be quantised, or is in another form than QDQ."""


@dataclass
class _CalibrationReader:
    """Calibration inputs as ONNX Runtime asks for them."""

    feeds: Iterator[dict[str, NDArray[Any]]]

    def get_next(self) -> dict[str, NDArray[Any]] | None:
        """The inputs of the next run; None after the last."""
        return next(self.feeds, None)


def is_quantised(network: Network) -> bool:
    """Whether the network is an ONNX file in QDQ form."""
    return network.onnx_path is not None and _FORM in onnx_import.operators(network.onnx_path)


def _require_form(path: Path) -> None:
    """Raises QuantisationError for an ONNX file with quantised operators of another form than QDQ."""
    operators = onnx_import.operators(path)
    other = sorted(name for name in operators if name.startswith("QLinear") or name in _OPERATOR_FORM)
    if other:
        raise QuantisationError(
            f"network={path}: {', '.join(other)} cannot be lowered in int8; quantise the network "
            "statically in QDQ form (onnxruntime: quant_format=QuantFormat.QDQ)"
        )


def quantised(network: Network, calibration: str | Path | None, path: Path) -> Network:
    """The network with its quantised form, written to `path` unless the network is quantised already.

    `calibration` is a file of `calibration_inputs`. Raises QuantisationError, CalibrationError,
    MissingExtraError.
    """
    if network.onnx_path is not None:
        _require_form(network.onnx_path)
    if is_quantised(network):
        if calibration is not None:
            raise QuantisationError(
                f"lowering.calibration={calibration}: network={network.onnx_path} is quantised already; "
                "leave it out, or give the float32 network"
            )
        return replace(network, quantised_path=network.onnx_path)
    for module in ("onnxruntime", "onnx", *(() if network.module is None else ("onnxscript",))):
        require_extra(module, "rivals", f"lowering.dtype={INT8}")
    runs = calibration_inputs(network, calibration)
    start = time.perf_counter()
    with TemporaryDirectory() as scratch, written_whole(path) as partial, _quiet():
        try:
            in_thread(lambda: _quantise(network, runs, Path(scratch), partial))
        except UserError:
            raise
        except Exception as error:  # the exporter and ONNX Runtime raise many types
            raise QuantisationError(
                f"lowering.dtype={INT8}: network={network.name} cannot be quantised: {kind_and_line(error)}; "
                "give an ONNX file in QDQ form, or use another data type"
            ) from error
    return replace(network, quantised_path=path, quantised_s=time.perf_counter() - start)


def _quantise(network: Network, runs: Sequence[Sequence[NDArray[Any]]], scratch: Path, path: Path) -> None:
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    exported, prepared = scratch / "exported.onnx", scratch / "prepared.onnx"
    if network.module is not None:
        export_onnx(network.module, network.inputs, exported, one_file=True)
    else:
        assert network.onnx_path is not None
        exported = network.onnx_path
    # PyTorch's exporter folds batch norms itself. ONNX Runtime would put reshapes after products as well.
    folded = network.module is not None
    quant_pre_process(str(exported), str(prepared), skip_optimization=folded, skip_symbolic_shape=True)
    names = [name for name, _, _ in onnx_import.input_signature(prepared)]
    quantize_static(
        str(prepared),
        str(path),
        _CalibrationReader(dict(zip(names, run, strict=True)) for run in runs),
        quant_format=QuantFormat.QDQ,
        op_types_to_quantize=list(_QUANTISED),
        # A product of two activations has no signed operand, which the instructions need.
        nodes_to_exclude=onnx_import.products_of_activations(prepared),
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        extra_options={"OpTypesToExcludeOutputQuantization": list(_IN_FLOAT)},
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps warnings of the exporter and of ONNX Runtime, which users cannot act on, off the screen."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
