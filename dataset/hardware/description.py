"""The description of a device: what a cost model is told about where a record was measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

_NOT_FEATURES = ("name", "kind", "details")


@dataclass(frozen=True)
class Hardware:
    """A CPU with the cores that programs use, or a GPU.

    `peak_gflops` and `bandwidth_gbs` are of all cores together: measured where the device was probed, from
    its specification where it was named (`details["figures"]` says which). The rest is reported.

    On a GPU `cores` are its multiprocessors, `vector_bits` the float32 lanes of a warp, `l1_bytes` the shared
    memory of a multiprocessor; it has no third cache. Caches of a CPU are the sizes that one core reaches.
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
    bandwidth_gbs: float  # of the main memory, reads and writes counted
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Further facts as JSON values, such as `memory_bytes`. They are no part of `features` or `hardware_id`
    yet, because shipped checkpoints were trained without them: a later feature version takes them in."""

    @property
    def hardware_id(self) -> str:
        """Names the device by what it reports; measured figures vary from run to run and stay out."""
        reported = [self.name, self.kind, self.cores, self.vector_bits]
        reported += [self.l1_bytes, self.l2_bytes, self.l3_bytes]
        return sha256(json.dumps(reported).encode()).hexdigest()[:12]

    def features(self) -> NDArray[np.float32]:
        """float32 [HARDWARE_DIM]: log2 of each quantity, after whether it is a GPU (Fasor section 4.1)."""
        numbers = [getattr(self, field.name) for field in fields(self) if field.name not in _NOT_FEATURES]
        return np.array(
            [self.kind == "cuda", *(np.log2(1.0 + number) for number in numbers)], dtype=np.float32
        )

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Hardware:
        """Raises ValueError when the text is no description."""
        try:
            return cls(**json.loads(text))
        except (TypeError, json.JSONDecodeError) as error:
            raise ValueError(
                f"hardware description: {error}; expected a JSON object of {cls.__name__}"
            ) from error


HARDWARE_DIM = 1 + len(fields(Hardware)) - len(_NOT_FEATURES)
"""Length of `Hardware.features`."""
