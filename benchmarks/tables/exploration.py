"""Table of explorers beside random and evolutionary search."""

from __future__ import annotations

from .reading import Results, markdown, not_measured

METHODS = {
    "random": "random programs",
    "evolutionary": "evolution",
    "random_moves": "random moves from the best",
    "dqn, high_efficiency": "deep Q-network, high-efficiency",
    "dqn, high_quality": "deep Q-network, high-quality",
}
PARTS = {"test": "unseen tasks", "unseen_operators": "unseen operators"}
MEASURES = {
    "score": "environment's score",
    "judged": "cost model's score",
    "recorded": "recorded latencies",
}


def methods(results: Results) -> str:
    """One row for each search, with the means of each part and measure."""
    found = results.of("explorer")
    if not found:
        return not_measured("python -m benchmarks.explorer")
    result = found[-1]
    means = result.values["means"]
    columns = [(part, measure) for part in PARTS for measure in MEASURES]
    rows = []
    for method, title in METHODS.items():
        values = [means[part][measure].get(method) for part, measure in columns]
        rows.append([title, *("-" if value is None else f"{value:.3f}" for value in values)])
    counts = "; ".join(
        f"{PARTS[part]}: {', '.join(str(means[part][measure]['sketches']) for measure in MEASURES)} sketches"
        for part in PARTS
    )
    heads = [f"{PARTS[part]}: {MEASURES[measure]}" for part, measure in columns]
    return markdown(
        ["search", *heads],
        rows,
        f"Means over sketches, with {result.values['candidates']} rated programs each: the best score by the "
        "environment, and the cost model's score of that program. Recorded latencies: the fastest of a "
        f"sketch over the fastest of the {result.values['recorded']} programs of a walk. {counts}.",
    )
