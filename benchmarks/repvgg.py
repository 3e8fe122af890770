"""RepVGG with other activations and with 1x1 convolutions, after Bolt section 4.3 (Tables 4 to 6).

    python -m benchmarks.repvgg
    python -m benchmarks.repvgg --forms A0-relu A0-gelu

The study covers latency at batch 1 only, without training. Each form of the network is tuned and exported,
and all are timed side by side. They share one database, so that layers in several forms run the same
programs. Runs, libraries and database are kept in `outputs/benchmarks/repvgg` until the commit changes, so a
stopped study resumes.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import nn

from .checkouts import commit_of
from .common import ROOT, argument_parser, kept_run, start, this_machine, write_result
from .networks.runs import side_by_side, tune

BASE = (64, 128, 256, 512)
"""Widths of the stages before they are multiplied."""

ACTIVATIONS: Mapping[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "hardswish": nn.Hardswish,
    "softplus": nn.Softplus,
}
"""Widths in Bolt's Table 4."""


@dataclass(frozen=True)
class Size:
    """Layers and widths of one RepVGG."""

    blocks: tuple[int, int, int, int]
    """Convolutions of the stages after the first one, which has one."""
    width: float
    """Factor of all widths except the last."""
    last_width: float


SIZES: Mapping[str, Size] = {
    "A0": Size((2, 4, 14, 1), 0.75, 2.5),
    "A1": Size((2, 4, 14, 1), 1.0, 2.5),
    "B0": Size((4, 6, 16, 1), 1.0, 2.5),
}


def repvgg(size: str = "A0", activation: str = "relu", deeper: int = 0) -> nn.Module:
    """A RepVGG for images [n, 3, h, w] of 1,000 classes.

    `deeper` is the number of leading 3x3 convolutions that are followed by a 1x1 convolution, with equal
    numbers of input and output channels and an activation. The last 3x3 convolution has too many channels for
    this and never gets one (Bolt section 4.3).
    """
    shape, act = SIZES[size], ACTIVATIONS[activation]
    factors = [shape.width] * 3 + [shape.last_width]
    widths = [int(base * factor) for base, factor in zip(BASE, factors, strict=True)]
    first = min(64, widths[0])
    plan = [(first, 2)]
    for width, blocks in zip(widths, shape.blocks, strict=True):
        plan += [(width, 2 if number == 0 else 1) for number in range(blocks)]
    layers: list[nn.Module] = []
    channels = 3
    for number, (width, stride) in enumerate(plan):
        layers += [nn.Conv2d(channels, width, 3, stride, 1), act()]
        channels = width
        if number < min(deeper, len(plan) - 1):
            layers += [nn.Conv2d(width, width, 1), act()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def parameters(module: nn.Module) -> int:
    """Number of weights and biases."""
    return sum(parameter.numel() for parameter in module.parameters())


FACTORY = "foretune.benchmarks.repvgg:repvgg"
"""Import path of the network, where `import foretune` is this checkout."""

SAME_INPUTS = "resnet18"
"""Network whose inputs serve to time all forms, which expect the same image."""

ALL = 100
"""More 3x3 convolutions than any RepVGG here has."""


@dataclass(frozen=True)
class Form:
    """Arguments of the network."""

    size: str
    activation: str = "relu"
    deeper: int = 0


FORMS: Mapping[str, Form] = {
    **{f"A0-{name}": Form("A0", name) for name in ("relu", "gelu", "hardswish", "softplus")},
    **{f"{size}-relu": Form(size) for size in ("A1", "B0")},
    **{f"{size}-relu-deeper": Form(size, deeper=ALL) for size in ("A0", "A1", "B0")},
    **{f"{size}-hardswish-deeper": Form(size, "hardswish", ALL) for size in ("A0", "A1", "B0")},
    "A0-hardswish-deeper-3": Form("A0", "hardswish", 3),
}
"""Tables 4, 5 and 6, and the last sentence of the section, in this order."""


def tuned(form: Form, overrides: Sequence[str], database: Path, library: Path) -> dict[str, Any]:
    """Tunes a form with the schedules of a database and exports it; returns its part of the result."""
    arguments = ",".join(f"{name}:{value}" for name, value in asdict(form).items())
    words = ["inputs=[[1,3,224,224]]", f"kwargs={{{arguments}}}", "untuned_limit_s=1e-9", *overrides]
    run = tune(ROOT, FACTORY, 0, words, export=library, database=database, timed=False)
    network = repvgg(**asdict(form))
    return {**asdict(form), "parameters": parameters(network), "tune": run}


def describe(name: str, latency_s: float, plain_s: float | None) -> str:
    """One line about a form."""
    ratio = "" if plain_s is None else f", {plain_s / latency_s:.1%} of A0-relu's speed"
    return f"{name}: {1e3 * latency_s:.3f} ms{ratio}"


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(__name__)
    add = parser.add_argument
    add(
        "--forms", nargs="+", choices=FORMS, default=list(FORMS), metavar="FORM", help=f"({', '.join(FORMS)})"
    )
    add("--timings", type=int, default=3, help="processes that time all forms in turns (%(default)s)")
    add("--again", action="store_true", help="run anew what is kept")
    add("--runs-in", type=Path, default=Path("outputs/benchmarks/repvgg"), help="(%(default)s)")
    add("overrides", nargs="*", default=["search=high_efficiency"], help="for foretune tune (%(default)s)")
    return parser.parse_args(words)


def main() -> None:
    arguments = arguments_of()
    begun, folder = start(), arguments.runs_in.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    commit, overrides = commit_of(ROOT), list(arguments.overrides)
    libraries = {name: folder / f"{name}.so" for name in arguments.forms}
    forms: dict[str, dict[str, Any]] = {}
    for number, name in enumerate(arguments.forms, 1):
        settings = {"commit": commit, "form": asdict(FORMS[name]), "overrides": overrides}
        forms[name] = kept_run(
            folder / f"{name}.json",
            settings,
            lambda name=name: tuned(  # type: ignore[misc]
                FORMS[name], overrides, folder / "database", libraries[name]
            ),
            again=arguments.again,
            library=libraries[name],
        )
        took_s = forms[name]["tune"]["total_s"]
        print(f"[{number} of {len(arguments.forms)}] {name} tuned in {took_s:.0f} s", flush=True)
    timings = [
        kept_run(
            folder / f"timing-{number}.json",
            {"commit": commit, "forms": list(libraries), "overrides": overrides},
            lambda: side_by_side(SAME_INPUTS, libraries),
            again=arguments.again,
        )
        for number in range(arguments.timings)
    ]
    latencies_s = {name: statistics.median(timing[name] for timing in timings) for name in libraries}
    for name, latency_s in latencies_s.items():
        print(describe(name, latency_s, latencies_s.get("A0-relu")), flush=True)
    result = {
        "overrides": overrides,
        "forms": {
            name: {**form, "latency_s": latencies_s[name], "timings_s": [timing[name] for timing in timings]}
            for name, form in forms.items()
        },
    }
    write_result("repvgg", result, begun, this_machine(), results=arguments.out)
    for library in libraries.values():
        library.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
