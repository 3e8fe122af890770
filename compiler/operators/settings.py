"""Interface of an operator: settings that build a TIR function, and the rules that tie them to the rest.

Adding an operator takes one module of this package, which registers a subclass of `OperatorSettings`, and its
test. `docs/extending.md` walks through one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from tvm import te
from tvm.tirx import PrimFunc
from typing_extensions import Self

from ..tvm_compat import with_layout_free
from ..types import OPERATOR_DTYPES, WIDE, data_type
from .shared.checks import CheckedFields, SettingsError
from .shared.epilogue import RESIDUAL
from .shared.knobs import Knob
from .shared.tir import TirFunction
from .shared.torch_call import TorchCall
from .shared.uniform import LARGEST, up_to

if TYPE_CHECKING:
    import numpy as np
    import torch

Pair: TypeAlias = tuple[int, int]
"""Height and width of a kernel, stride, padding or dilation."""

Triple: TypeAlias = tuple[int, int, int]
"""Depth, height and width of a kernel, stride, padding or dilation."""

DTYPES = OPERATOR_DTYPES
FLOATS = tuple(name for name in DTYPES if data_type(name).sums == name)
"""Data types of operators without products: a network in bfloat16 computes them in float32."""

INTEGER_STEPS = {"none", "bias", "add", "relu"}
"""Epilogue steps that int8 operators may have: they mean the same on 32-bit sums as on real numbers."""

NOT_CRAWLED = ("dtype", "layout", "prepack")
"""Fields that the operator calls of a zoo do not tell: PyTorch builds networks in float32, channels first."""

COMMUTATIVE_REDUCTION, OUT_ELEMENTWISE_FUSABLE = 3, 4
"""Relax's operator patterns: a plain reduction, and any other that element-wise operations may follow."""


@dataclass(frozen=True, kw_only=True)
class OperatorSettings(CheckedFields, ABC):
    """Settings of one operator. They build the same TIR as importing a network through Relax does.

    A subclass is a frozen dataclass with one field per extent or parameter. It must define `operator`,
    `tensors`, `flops`, `label`, `examples` and `reference`; the rest has a default that switches the
    capability off or suits most operators. Modules of operators import torch only inside functions, because
    measuring processes run without it.
    """

    # --- What the operator has ------------------------------------------------------------------------------

    operator: ClassVar[str]
    """Name in records and configuration, such as `conv2d`. Names never change: records refer to them."""
    epilogues: ClassVar[tuple[str, ...]] = ("none",)
    """Element-wise steps that may be fused after the operator, joined by `_` as in `bias_relu`."""
    dtypes: ClassVar[tuple[str, ...]] = DTYPES
    layouts: ClassVar[tuple[str, ...]] = ()
    """Orders of the data's axes, the default first; empty for an operator without the field `layout`."""
    packable: ClassVar[bool] = False
    """Whether a reduction reads an input named `weight` whose layout may be chosen ahead of time."""
    random_networks: ClassVar[tuple[str | Callable[[np.random.Generator], Any], ...]] = ()
    """Families of random networks that call the operator, one for each share: a name of the dataset's
    `FAMILIES`, or a function that makes a network."""

    epilogue: str = "none"
    dtype: str = "float32"
    prepack: bool = False
    """Whether a program may choose the layout of its weight, as in networks that are lowered for a CPU."""

    def __post_init__(self) -> None:
        """Checks the fields; subclasses extend it. Raises SettingsError."""
        self._check_choice("epilogue", self.epilogues)
        self._check_choice("dtype", self.dtypes)
        self._check_choice("prepack", (False, True) if self.packable else (False,))
        if data_type(self.dtype).is_integer and not INTEGER_STEPS.issuperset(self.epilogue.split("_")):
            raise SettingsError(
                f"{self.operator}: epilogue={self.epilogue!r} of dtype={self.dtype!r}: use steps of "
                f"{', '.join(sorted(INTEGER_STEPS))}, or a floating-point dtype"
            )

    # --- Building -------------------------------------------------------------------------------------------

    @abstractmethod
    def tensors(self) -> list[te.Tensor]:
        """Inputs in the order of the function's arguments, then the output, epilogue included."""

    counts_as_tvm: ClassVar[bool] = True
    """Whether `flops` equals TVM's count of the plain operator; not if a formula leaves arithmetic out."""

    @property
    @abstractmethod
    def flops(self) -> int:
        """Operations of the naive loop nest, a multiply-add as two; padding and epilogue do not count."""

    @property
    @abstractmethod
    def label(self) -> str:
        """Short name of the shape for task names and logs, different for different shapes."""

    @property
    def op_pattern(self) -> int | None:
        """Relax's pattern of the operator without an epilogue; None where Relax has no such operator."""
        return OUT_ELEMENTWISE_FUSABLE

    @property
    def accumulator(self) -> str:
        """Data type of sums.

        It is float16 for float16, as Relax legalises it; PyTorch sums in float32 and rounds once.
        """
        return data_type(self.dtype).sums

    def prim_func(self, then: Callable[[te.Tensor], te.Tensor] | None = None) -> PrimFunc:
        """The operator with its epilogue as one TIR function; `then` makes the output of the epilogue's.

        In bfloat16 it is the function that a network in bfloat16 calls: data, weight, residual and output are
        bfloat16, while a bias and all arithmetic are float32.
        """
        if data_type(self.dtype).built_stored:
            return _stored_in(replace(self, dtype=WIDE).prim_func(then), self.dtype)
        # Relax indexes with 64 bits and leaves its fusion pattern on a function that fuses nothing. Without
        # either, a task would not have the hash of the same task of a network.
        tensors = self.tensors()
        if then is not None:
            tensors = [*tensors[:-1], then(tensors[-1])]
        func = te.create_prim_func(tensors, index_dtype_override="int64")
        if self.prepack:
            func = with_layout_free(func, [i for i, t in enumerate(tensors) if t.op.name == "weight"])
        if self.epilogue != "none" or then is not None or self.op_pattern is None:
            return func
        return func.with_attr("op_pattern", self.op_pattern)

    # --- Recognising the operator in TIR --------------------------------------------------------------------

    marker: ClassVar[str] = ""
    """Name of a TIR block that only this operator has; empty for one that is recognised by its anchor block.

    A function with a marked block is offered to the operators of that marker alone.
    """

    @classmethod
    def read_tir(cls, function: TirFunction) -> dict[str, Any] | None:
        """Fields as `to_dict` writes them, except `epilogue` and `prepack`; None for another operator.

        A setting that makes no difference, such as the stride of a single output, reads as 1.
        """
        return None

    @classmethod
    def type_of(cls, function: TirFunction) -> str | None:
        """Operator type of a function that no `read_tir` reads, if it is related to this operator.

        By default the operator's own name for functions with its marker; otherwise its own name or one of
        `task.CATEGORIES`.
        """
        return cls.operator if cls.marker and cls.marker in function.blocks else None

    # --- Reading the operator from a network's calls --------------------------------------------------------

    calls: ClassVar[tuple[str, ...]] = ()
    """ATen functions that may call the operator, such as `aten.convolution`."""
    folds_batch_norm: ClassVar[bool] = False
    """Whether the weight takes in the scale of a batch norm after the operator, which leaves a bias."""
    called_on_flattened: ClassVar[bool] = False
    """Whether PyTorch reshapes the data around the call; steps after that reshape are still fused."""

    @classmethod
    def read_call(cls, call: TorchCall) -> Self | None:
        """Settings of a call of one of `calls`, with epilogue `none` or `bias`; None for another operator's.

        Raises NotDescribedError or SettingsError for a call that the settings cannot express.
        """
        return None

    # --- Sampling tasks -------------------------------------------------------------------------------------

    draw_order: ClassVar[int] = 100
    """Position in lists of operators, ties by name. Draws of a seed depend on it: new operators come last."""
    share: ClassVar[float] = 0.0
    """Share in the default mix of tasks, relative to the other operators; 0 leaves the operator out."""
    knobs: ClassVar[tuple[Knob, ...]] = ()
    """Order and conditions of the prior's draws; by default one knob per field in their order."""
    made_of: ClassVar[str] = ""
    """Operator whose rows in the zoo's table also count for this one, by way of `derive`."""
    largest: ClassVar[Mapping[str, int]] = LARGEST
    """Largest value of each field in uniform draws."""

    @classmethod
    def derive(cls, other: Any) -> Self | None:
        """Settings that do the work of `made_of`'s settings; None if there are none."""
        return None

    @classmethod
    def typical(cls) -> tuple[Self, ...]:
        """Settings that the prior counts once each while the zoo's table has none of the operator."""
        return ()

    @classmethod
    def draw_uniform(cls, rng: np.random.Generator, **drawn: Any) -> dict[str, Any]:
        """Values of fields, each uniform over its range; a batch is 1. Together they may be impossible.

        Subclasses pass the values that they draw first as `drawn`, and add what this does not draw.
        """
        values = {"batch": 1, **drawn}
        for field in fields(cls):
            if field.name not in values and field.name in cls.largest:
                values[field.name] = up_to(cls.largest[field.name], rng)
        return {**values, "epilogue": str(rng.choice(cls.epilogues))}

    def enlarged(self, batch: int) -> Self:
        """The operator on `batch` times as many inputs: by default more of `batch`, or else of `rows`."""
        names = {field.name for field in fields(self)}
        field = next((name for name in ("batch", "rows") if name in names), None)
        changes: dict[str, Any] = {} if field is None else {field: getattr(self, field) * batch}
        return replace(self, **changes)

    def plain(self) -> Self:
        """The same shape in float32 and the default layout, nothing fused. Equal results are one shape."""
        changes: dict[str, Any] = {"epilogue": "none", "dtype": "float32", "prepack": False}
        if self.layouts:
            changes["layout"] = self.layouts[0]
        return replace(self, **changes)

    def bridge_with(self, other: Self) -> Self:
        """The operator with the smaller extent of both along each loop: ETO's bridge operator (Definition 5).

        Where both have a value that is no extent, such as a layout, it must be the same. Raises SettingsError
        if there is no such operator.
        """
        if type(self) is not type(other):
            raise SettingsError(
                f"{self.operator} and {other.operator}: only operators of one type are bridged"
            )
        return replace(self, **self._bridge_values(other))

    def _bridge_values(self, other: Self) -> dict[str, Any]:
        """Fields of the bridge operator: by default the smaller of each number."""
        values: dict[str, Any] = {}
        for name in (field.name for field in fields(self)):
            mine, theirs = getattr(self, name), getattr(other, name)
            if isinstance(mine, tuple):
                values[name] = tuple(min(pair) for pair in zip(mine, theirs, strict=True))
            elif isinstance(mine, int) and not isinstance(mine, bool):
                values[name] = min(mine, theirs)
            elif mine != theirs:
                raise SettingsError(f"{self.operator}: {name}={mine!r} and {theirs!r}: no operator has both")
        return values

    # --- Testing --------------------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def examples(cls) -> tuple[Self, ...]:
        """Small settings for tests; different axes have different extents, so that mixed-up axes show.

        The first is tested with every epilogue, layout and data type, the others unchanged.
        """

    @abstractmethod
    def reference(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """Output of PyTorch without the epilogue, from the operator's own inputs in float64."""

    def prepare_inputs(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """Random inputs changed to ones that the operator may get; by default they stay unchanged."""
        return inputs

    # --- JSON -----------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """JSON-able values by field, tuples as lists; `prepack` only if it is true, as `describe` does."""
        values = {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}
        if not values["prepack"]:
            del values["prepack"]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Settings from what `to_dict` wrote; raises SettingsError."""
        known = [f.name for f in fields(cls)]
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise SettingsError(f"{cls.operator}: no setting {', '.join(unknown)}; it has {', '.join(known)}")
        try:
            return cls(**values)
        except TypeError as error:  # a missing field
            raise SettingsError(f"{cls.operator}: {error}; it needs {', '.join(known)}") from error


def _stored_in(func: PrimFunc, dtype: str) -> PrimFunc:
    """A float32 product that reads and writes arrays of a narrower type."""
    from ..networks.low_precision.stored_type import array_use, stored_narrow  # it imports this package

    use = array_use(func)
    assert use is not None and use.multiplies, func
    residuals = [index for index, array in enumerate(func.params) if array.name == RESIDUAL]
    return stored_narrow(func, {*use.operands, *residuals, len(func.params) - 1}, dtype)
