"""`python -m foretune.inference.report report.json`: print a report and rewrite its page."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ...errors import exits_cleanly
from ...terminal import CommandConsole, say
from ..run.result_file import load_result
from .terminal import print_report
from .write import write_report


@exits_cleanly()
def main(arguments: Sequence[str] | None = None) -> None:
    """Prints and rewrites a report; `arguments` default to the command line's."""
    parser = argparse.ArgumentParser(
        prog="python -m foretune.inference.report",
        description="Print the report of a tuning run and write its page again.",
    )
    parser.add_argument("result", type=Path, help="the report.json of a tuning run")
    parser.add_argument("--output", type=Path, help="folder for the new files (default: that of report.json)")
    options = parser.parse_args(arguments)
    result = load_result(options.result)
    console = CommandConsole()
    print_report(result, console)
    paths = write_report(result, options.output or options.result.parent)
    say(console, f"wrote {paths.json} and {paths.html}")


if __name__ == "__main__":
    main()
