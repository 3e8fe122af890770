"""Tables of RepVGG with other activations and 1x1 convolutions (Bolt section 4.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .reading import Results, markdown, milliseconds, not_measured

COMMAND = "python -m benchmarks.repvgg"

PUBLISHED = {
    "A0-relu": 5909,
    "A0-gelu": 5645,
    "A0-hardswish": 5713,
    "A0-softplus": 5453,
}
"""Images a second of a Tesla T4 at batch 32 in float16 (Bolt, Table 4)."""

PUBLISHED_DEEPER = {
    "A0-relu": 7861,
    "A1-relu": 6253,
    "B0-relu": 4888,
    "A0-relu-deeper": 6716,
    "A1-relu-deeper": 5241,
    "B0-relu-deeper": 4145,
    "A0-hardswish-deeper": 6338,
    "A1-hardswish-deeper": 4868,
    "B0-hardswish-deeper": 3842,
    "A0-hardswish-deeper-3": 7288,
}
"""The same of Tables 5 and 6, and of the section's last sentence."""


def activations(results: Results) -> str:
    """RepVGG-A0 by activation, beside Table 4."""
    rows = []
    for result in results.of("repvgg"):
        forms = result.values["forms"]
        for name in (name for name in PUBLISHED if name in forms):
            speed = _speed(forms, name, "A0-relu")
            published = PUBLISHED[name] / PUBLISHED["A0-relu"]
            cells = [forms[name]["activation"], milliseconds(forms[name]["latency_s"])]
            rows.append([result.machine, *cells, speed, f"{published:.0%}"])
    if not rows:
        return not_measured(COMMAND)
    heads = ["machine", "activation", "latency", "speed of ReLU's", "in Bolt's Table 4"]
    return markdown(heads, rows, "RepVGG-A0 at batch 1. Bolt: a Tesla T4 at batch 32 in float16.")


def deeper(results: Results) -> str:
    """Sizes of RepVGG with and without 1x1 convolutions, beside Tables 5 and 6."""
    rows = []
    for result in results.of("repvgg"):
        forms = result.values["forms"]
        for name in (name for name in PUBLISHED_DEEPER if name in forms):
            form = forms[name]
            plain = f"{form['size']}-relu"
            rows.append(
                [
                    result.machine,
                    f"RepVGG-{form['size']}",
                    _added(form),
                    form["activation"],
                    f"{form['parameters'] / 1e6:.2f} M",
                    milliseconds(form["latency_s"]),
                    _speed(forms, name, plain),
                    f"{PUBLISHED_DEEPER[name] / PUBLISHED_DEEPER[plain]:.0%}",
                ]
            )
    if not rows:
        return not_measured(COMMAND)
    heads = ["machine", "network", "1x1 convolutions", "activation", "parameters", "latency"]
    heads += ["speed of the plain one", "in Bolt's Tables 5 and 6"]
    return markdown(heads, rows, "At batch 1. Bolt: a Tesla T4 at batch 32 in float16.")


def _speed(forms: Mapping[str, Any], name: str, plain: str) -> str:
    """Speed as a share of the plain form's; a dash where that was not run."""
    if plain not in forms:
        return "-"
    return f"{forms[plain]['latency_s'] / forms[name]['latency_s']:.0%}"


def _added(form: Mapping[str, Any]) -> str:
    """Place of the 1x1 convolutions."""
    if not form["deeper"]:
        return "none"
    return "behind all but the last" if form["deeper"] > 10 else f"behind the first {form['deeper']}"
