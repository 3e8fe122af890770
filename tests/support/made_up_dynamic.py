"""A made-up run with dynamic shapes."""

from __future__ import annotations

from typing import Any

from foretune.inference.dynamic.result import DynamicResult, SizeResult


def member(rows: int, panels: int = 2) -> dict[str, Any]:
    return {"width": 8, "rows": rows, "panels": panels, "order": "rows"}


TABLE = {
    "least_columns": 1,
    "members": [member(1), member(6)],
    "breakpoints": [6, 9],
    "chosen": [0, 1, 0],
    "regret_mean": 0.0213,
    "regret_worst": 0.25,
}

RESULT = DynamicResult(
    network="<b>net",
    target='{"kind": "llvm", "mcpu": "znver3"}',
    symbols={"n": (1, 40), "b": (1, 2)},
    sizes=(
        SizeResult({"n": 1, "b": 1}, 1e-6, 1e-4, 0.001),
        SizeResult({"n": 40, "b": 2}, 5e-5, 1e-4, 0.004),
        SizeResult({"n": 41, "b": 3}, 0.0, 1e-4, 0.04, beyond=True),
    ),
    tasks=(
        {"name": "fused_matmul", "kind": "product", "size": "n", "tables": [TABLE]},
        {"name": "softmax", "kind": "rows", "size": "", "tables": []},
        {"name": "gather", "kind": "plain", "size": "", "tables": []},
    ),
    exported="net.so",
    total_s=12.0,
    stage_s={"load": 1.5},
    versions={"tvm": "0.27"},
    started_at="2026-01-02T03:04:05+00:00",
)
