"""Table of first layers with their channels filled up (Bolt, section 3.2.3)."""

from __future__ import annotations

from .reading import Results, markdown, milliseconds, not_measured, times

PLAIN = "plain"


def layers(results: Results) -> str:
    """One row for each layer and form, with its speed over that of three channels as they are."""
    rows = []
    for result in results.of("padding"):
        for name, forms in result.values["layers"].items():
            for form, one in forms.items():
                speed = forms[PLAIN]["latency_s"] / one["latency_s"]
                cells = [milliseconds(one["latency_s"]), times(speed), f"{one['difference']:.0e}"]
                rows.append([result.machine, name, form, *cells])
    if not rows:
        return not_measured("python -m benchmarks.padding")
    heads = ["machine", "first layer of", "input channels", "latency", "speed", "difference"]
    note = (
        "From a float32 image to the average of each filter, all forms tuned alike. Difference: the largest "
        "from PyTorch's float32 over the largest output."
    )
    return markdown(heads, rows, note)
