"""Entry of `python -m benchmarks.coverage.torch_modules`."""

from __future__ import annotations

from ...coverage import torch_modules
from ..conversion_check import check_operator
from ..suite import run_suite
from .catalogue import cases


def main() -> None:
    run_suite(torch_modules, "coverage_torch_modules", cases(), check_operator, limit_s=60)


if __name__ == "__main__":
    main()
