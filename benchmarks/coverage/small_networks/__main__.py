"""Entry of `python -m benchmarks.coverage.small_networks`."""

from __future__ import annotations

from ...coverage import small_networks
from ..__main__ import INSTALL, installed
from ..conversion_check import check_operator
from ..suite import run_suite
from .catalogue import NETWORKS, cases


def main() -> None:
    missing = sorted({entry.zoo for entry in NETWORKS.values() if not installed(entry.zoo)})
    for zoo in missing:
        print(f"left out {zoo}, which is not installed: {INSTALL[zoo]}")
    further = {"missing_zoos": missing}
    chosen = [case for case in cases() if installed(NETWORKS[case.name].zoo)]
    run_suite(small_networks, "coverage_networks", chosen, check_operator, limit_s=240, further=further)


if __name__ == "__main__":
    main()
