"""Sizes of a network with dynamic shapes that leave register tiles nearly empty, and cheaper ones nearby."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from tvm.target import Target

from ...compiler.dynamic.symbols import Symbol
from ...compiler.networks import Lowering, Network
from ...compiler.networks.dynamic.dynamic_inputs import DynamicInputs
from ...compiler.networks.dynamic.lowering import to_symbolic_relax
from ...compiler.networks.dynamic.product_costs import ProductCost, ProductCosts
from ...files import write_whole
from ...page import Page, Table, columns, to_html
from ...terminal import print_table, say
from ...wording import counted, target_words
from .outlook import require_cpu
from .sizes import sizes_to_time

MOST_SIZES = 512
"""Sizes of a symbol that are rated from the smallest one on, in addition to those near expected ones."""

_LEAST = 0.02
"""Share of the time that a size has to waste to be named."""

_MOST_ROWS = 12
"""Sizes of one symbol that are named."""

_SAME = 0.005
"""Share of the time up to which a larger size counts as equally long."""


@dataclass(frozen=True)
class WastefulSize:
    """A size whose last element begins register tiles that stay nearly empty."""

    symbol: str
    size: int
    wasted: float
    """Share of its predicted time above the time of the size before it, in proportion to the elements."""
    longer: float
    """Share by which it takes longer than the size before it."""
    up_to: int
    """Largest size that takes hardly longer."""
    kernel: str
    """Rows and columns of the register tile of the product that loses most."""
    rows: int
    """Rows of that product."""


@dataclass(frozen=True)
class SizeAdvice:
    """Advice on the sizes of one network."""

    network: str
    target: str
    symbols: Mapping[str, tuple[int, int]]
    products: int
    """Products that the predictions cover."""
    wasteful: Sequence[WastefulSize]
    """By symbol, the most wasteful sizes first."""

    def tables(self) -> list[Table]:
        """A table for each symbol that has wasteful sizes."""
        return [table for table in map(self._table, self.symbols) if table]

    def _table(self, symbol: str) -> Table:
        rows = [
            [
                str(one.size),
                f"{one.longer:+.1%}",
                f"{one.wasted:.1%}",
                str(one.size - 1),
                "" if one.up_to == one.size else str(one.up_to),
                f"{one.kernel} for {one.rows} rows",
            ]
            for one in self.wasteful
            if one.symbol == symbol
        ]
        note = (
            f"Sizes of {symbol} that begin register tiles and leave them nearly empty, as predicted for the "
            "products; other symbols have a middle size. Wasted is the time above one element fewer, "
            "in proportion to the elements. If you can choose the size, take one element fewer, or fill the "
            "tiles up to the size in the next column, which takes hardly longer."
        )
        titles = (symbol, "Than one fewer", "Wasted", "Cheaper", "As long up to", "Tile that loses most")
        heads = columns(*titles, text=(titles[-1],))
        return Table(f"Sizes of {symbol} that waste a tile", heads, rows, note)

    def print(self, console: Console) -> None:
        """Prints the tables and a sentence."""
        for table in self.tables():
            print_table(table, console, explained=True)
        ranges = ", ".join(f"{name}={low}:{high}" for name, (low, high) in self.symbols.items())
        found = counted(len(self.wasteful), "size")
        say(
            console,
            f"{self.network} with {ranges}: {found} named, by {counted(self.products, 'product')}",
        )

    def write(self, folder: Path) -> list[Path]:
        """Writes `advice.json` and `advice.html`, and returns their paths."""
        folder.mkdir(parents=True, exist_ok=True)
        data, page = folder / "advice.json", folder / "advice.html"
        write_whole(data, json.dumps(asdict(self), indent=1) + "\n")
        title = f"Sizes of {self.network} that waste register tiles"
        write_whole(page, to_html(Page(title, f"{target_words(self.target)} | predicted", self.tables())))
        return [data, page]


def size_advice(network: Network, dynamic: DynamicInputs, target: Target, lowering: Lowering) -> SizeAdvice:
    """The advice on the sizes of a network, by predictions.

    Raises DynamicShapeError, NetworkExportError.
    """
    require_cpu(target)
    costs = ProductCosts(to_symbolic_relax(network, dynamic, target, lowering), dynamic, target)
    timed = sizes_to_time(dynamic.symbols)
    middle = timed[len(timed) // 2]
    found: list[WastefulSize] = []
    for symbol in dynamic.symbols.values():
        at = {size: costs.at({**middle, symbol.name: size}) for size in rated_sizes(symbol)}
        found += wasteful_sizes(symbol.name, at)
    return SizeAdvice(network.name, str(target), dynamic.ranges, len(costs), found)


def rated_sizes(symbol: Symbol) -> list[int]:
    """Sizes that are rated, in order: with the one before an expected size, and a tile's length after it."""
    near = {size + step for size in symbol.counts for step in range(-1, 17)}
    first = range(symbol.low, min(symbol.high, symbol.low + MOST_SIZES) + 1)
    return sorted({*first, *filter(symbol.contains, near)})


def wasteful_sizes(symbol: str, at: Mapping[int, Sequence[ProductCost]]) -> list[WastefulSize]:
    """The sizes that waste most, by the costs of the products at each rated size."""
    total = {size: math.fsum(one.cycles for one in costs) for size, costs in at.items()}
    found = []
    for size, costs in at.items():
        before = at.get(size - 1)
        if before is None or not total[size - 1]:
            continue
        longer = total[size] / total[size - 1] - 1
        wasted = (total[size] - total[size - 1] * size / (size - 1)) / total[size]
        if wasted < _LEAST:
            continue
        up_to = size
        while up_to + 1 in total and total[up_to + 1] <= total[size] * (1 + _SAME):
            up_to += 1
        grown = [one.cycles - other.cycles for one, other in zip(costs, before, strict=True)]
        worst = costs[grown.index(max(grown))]
        tile = f"{worst.kernel.rows}x{worst.kernel.columns}"
        found.append(WastefulSize(symbol, size, wasted, longer, up_to, tile, worst.size.rows))
    return sorted(found, key=lambda one: (-one.wasted, one.size))[:_MOST_ROWS]
