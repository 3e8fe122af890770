"""Table of all results with the command and the commit that measured them."""

from __future__ import annotations

from .reading import Results, markdown


def manifests(results: Results) -> str:
    """One row a result."""
    rows = []
    for benchmark in sorted({path.parent.parent.name for path in results.root.glob("*/*/result.json")}):
        for result in results.of(benchmark):
            load = result.manifest["load"]
            rows.append(
                [
                    result.path,
                    result.machine,
                    result.date,
                    "not known" if result.manifest["commit"] is None else f"`{result.commit}`",
                    "not known" if load is None else f"{load['before'][0]:.1f}",
                    "yes" if result.manifest["reconstructed"] else "no",
                ]
            )
    heads = ["`benchmarks/results/`", "machine", "measured", "commit", "load before", "reconstructed"]
    note = (
        "Commands, versions and hardware are in each `manifest.json`. A reconstructed manifest was written "
        "afterwards: null stands for what is not known, and `notes` name the commit that has the raw results."
    )
    return markdown(heads, rows, note)
