"""Tune a network for a range of batch sizes, and run its one library at several of them.

python examples/dynamic_shapes.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import foretune
import numpy as np
from foretune.inference import tune_network


def main(folder: Path) -> None:
    """Writes the library and its report into `folder`."""
    library = folder / "layer.so"
    tune_network(
        "torch.nn:Linear",
        kwargs={"in_features": 64, "out_features": 16},
        inputs=[["rows", 64]],
        dims={"rows": "1:100"},
        export=library,
        output=folder / "report",
        database=folder / "database",
    )
    network = foretune.load(library)
    print(network)
    for rows in (1, 7, 100):
        print(rows, network(np.ones((rows, 64), np.float32)).shape)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("outputs/dynamic-shapes"))
