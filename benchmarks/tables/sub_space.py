"""Tables of the sub-space of critical primitives (Fasor section 5), from the records of a CPU."""

from __future__ import annotations

from .reading import Results, markdown


def weights(results: Results) -> str:
    """One row a primitive: its pairs and the sensitivity of either score."""
    rows = []
    for result in results.of("sub_space"):
        values = result.values
        for name, pairs in values["pairs"].items():
            memory, core = (values["weights"][bound][name] for bound in ("memory", "core"))
            rows.append([name, f"{pairs:,}", f"{memory:.2f}", f"{core:.2f}"])
    return markdown(["primitive", "pairs", "memory score", "core score"], rows)


def kept(results: Results) -> str:
    """One row for each n_p."""
    rows = []
    for result in results.of("sub_space"):
        for count, entry in result.values["kept"].items():
            rows.append(
                [
                    count,
                    f"{entry['size']:.1e}",
                    f"{entry['programs']:.1%}",
                    f"{entry['tasks_inside']} of {entry['tasks']}",
                    f"{entry['best_kept']:.0%}",
                    f"{entry['best_at_random']:.0%}",
                ]
            )
    heads = ["n_p", "size of the space", "programs inside", "tasks with a program inside"]
    return markdown([*heads, "best latency kept", "by as many at random"], rows)
