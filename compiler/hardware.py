"""Hardware description: the device that a record was measured on, as a cost model sees it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

_NOT_FEATURES = ("name", "kind", "details")

DISTURBED = "peaks_disturbed"
"""Detail of a device whose peaks were measured beside other work on the machine, so that they may be too
low."""

FROM_PROGRAM = "peak_from_program"
"""Detail of a device whose peak is the rate of its fastest program, because measurements of the peak gave
less."""


@dataclass(frozen=True)
class Hardware:
    """CPU with the cores that programs use, or GPU.

    `peak_gflops` and `bandwidth_gbs` are totals over all cores: measured on a probed device, from the
    specification of a named one (`details["figures"]` names the source). The other fields are as reported.

    On a GPU, `cores` counts multiprocessors, `vector_bits` covers the float32 lanes of a warp, `l1_bytes` is
    the shared memory of a multiprocessor and `l3_bytes` is 0. Cache sizes of a CPU are per core.
    """

    name: str
    kind: str  # "cpu" or "cuda"
    cores: int
    frequency_ghz: float
    vector_bits: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    peak_gflops: float  # float32
    bandwidth_gbs: float  # of main memory, counting reads and writes
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """More facts as JSON values, such as `memory_bytes`. They are no part of `features` and `hardware_id`, as
    the shipped checkpoints were trained without them."""

    @property
    def hardware_id(self) -> str:
        """Identifier from the reported fields; measured figures vary between runs and are left out."""
        reported = [self.name, self.kind, self.cores, self.vector_bits]
        reported += [self.l1_bytes, self.l2_bytes, self.l3_bytes]
        return sha256(json.dumps(reported).encode()).hexdigest()[:12]

    def features(self) -> NDArray[np.float32]:
        """Hardware vector, float32 [HARDWARE_DIM]: 1 for a GPU, then log2(1 + x) (Fasor section 4.1)."""
        numbers = [getattr(self, name) for name in _NUMBERS]
        return np.array(
            [self.kind == "cuda", *(np.log2(1.0 + number) for number in numbers)], dtype=np.float32
        )

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Hardware:
        """Parse a description; raises ValueError if `text` is not one."""
        try:
            found = cls(**json.loads(text))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"hardware description: {error}; expected a JSON object of {cls.__name__}"
            ) from error
        for name in _NUMBERS:
            if not isinstance(value := getattr(found, name), (int, float)):
                raise ValueError(f"hardware description: {name} is {value!r}; expected a number")
        return found


_NUMBERS = [field.name for field in fields(Hardware) if field.name not in _NOT_FEATURES]

HARDWARE_DIM = 1 + len(_NUMBERS)
"""Length of `Hardware.features`."""

HARDWARE_COLUMNS = {name: number for number, name in enumerate(_NUMBERS, start=1)}
"""Column of each number in `Hardware.features`."""
