"""Rehearsal of a benchmark that writes no result without a GPU: runs it and writes its command as result.

python -m benchmarks.campaign.rehearsal RESULTS BENCHMARK MODULE WORD ...
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ..common import start, this_machine, write_result


def main() -> int:
    results, benchmark, *words = sys.argv[1:]
    begun = start()
    if status := subprocess.run([sys.executable, "-m", *words]).returncode:
        return status
    result = {"rehearsed": words}
    write_result(benchmark, result, begun, this_machine(), results=Path(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
