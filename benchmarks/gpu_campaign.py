"""Measurements on a CUDA machine that is lent for minutes and has no package index.

`plan` lists the stages of the campaign, the most valuable first. It reports their inputs, their time, and
their state by the results in `benchmarks/results`. Gather the wheels on a machine with a package index.
`freeze.txt` is the output of `pip freeze` on the CUDA machine, whose packages are left out:

    python benchmarks/gpu_campaign.py bundle --out outputs/bundle --part-size 44M --given freeze.txt
    python benchmarks/gpu_campaign.py plan --bundle outputs/bundle

On the CUDA machine, run the next open steps in a checkout of this repository. Their work is packed into at
most 8 files of 16 MiB, even if a step is interrupted:

    python benchmarks/gpu_campaign.py next --bundle /tmp/bundle --minutes 9.5 --out OUT

Then merge the files into `data/` and `benchmarks/results`. The next call continues with `outputs/campaign`:
carry this folder, too.

    python benchmarks/gpu_campaign.py land OUT

`--dry-run` runs every step without a GPU and with small sizes. Its results do not land among the others. This
script requires only Python to make the environment.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

if not __package__:  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.campaign.landing import land
from benchmarks.campaign.limits import LIMITS, CampaignError
from benchmarks.campaign.plan import plan
from benchmarks.campaign.running import DRY_RUN_TARGET, Call, next_steps
from benchmarks.campaign.stages import STAGES
from benchmarks.campaign.wheels import bundle, parse_size
from benchmarks.campaign.workspace import Workspace


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    wanted = commands.add_parser("bundle", help="gather wheels for a machine without a package index")
    wanted.add_argument("--out", type=Path, required=True)
    wanted.add_argument("--part-size", type=parse_size, default=parse_size("44M"), help="default 44M")
    wanted.add_argument("--python", default="3.12", help="Python of that machine, default 3.12")
    wanted.add_argument("--given", type=Path, help="output of pip freeze there, to leave out")
    wanted.add_argument("--with-torch", action="store_true", help="for a machine without torch (gigabytes)")
    places = argparse.ArgumentParser(add_help=False)
    defaults = Workspace()
    places.add_argument("--work", type=Path, default=defaults.work, help="(%(default)s)")
    places.add_argument("--results", type=Path, default=defaults.results, help="(%(default)s)")
    places.add_argument("--data", type=Path, default=defaults.data, help="(%(default)s)")
    places.add_argument("--dry-run", action="store_true", help="rehearse: small sizes, no GPU")
    wanted = commands.add_parser("plan", parents=[places], help="list the stages and the files of the next")
    wanted.add_argument("--bundle", type=Path, help="also list the calls that carry it")
    wanted = commands.add_parser("next", parents=[places], help="run the next open steps on this machine")
    crates = Path("outputs/campaign-crate")
    wanted.add_argument(
        "--out", type=Path, default=crates, help="folder for the files to fetch (%(default)s)"
    )
    wanted.add_argument("--minutes", type=float, default=LIMITS.call_s / 60 - 0.5, help="(%(default)s)")
    wanted.add_argument("--stage", choices=STAGES, help="only of this stage")
    wanted.add_argument("--bundle", type=Path, help="wheels; without them, this Python must have foretune")
    wanted.add_argument("--environment", type=Path, default=Path(tempfile.gettempdir(), "foretune-env"))
    wanted.add_argument("--target", help=f"default cuda; with --dry-run {DRY_RUN_TARGET}")
    wanted = commands.add_parser("land", parents=[places], help="merge the files that came back")
    wanted.add_argument("folder", type=Path, metavar="FOLDER")
    return parser


def main(words: Sequence[str] | None = None) -> int:
    given = make_parser().parse_args(words)
    try:
        if given.command == "bundle":
            bundle(given.out, given.part_size, given.python, given.with_torch, given.given)
            return 0
        places = (path.resolve() for path in (given.work, given.results, given.data))
        workspace = Workspace(*places, dry_run=given.dry_run)
        if given.dry_run and Workspace().results == workspace.results and given.command == "land":
            raise CampaignError("a rehearsal lands elsewhere: give --work, --results and --data")
        if given.command == "plan":
            print(plan(workspace, given.bundle))
            return 0
        if given.command == "land":
            print("\n".join(land(given.folder, workspace)) or "nothing new")
            return 0
        call = Call(
            workspace,
            given.out.resolve(),
            given.minutes,
            given.bundle,
            given.environment,
            given.target,
            given.stage,
        )
        return next_steps(call)
    except CampaignError as error:
        print(f"error: {error}", file=sys.stderr)
    except OSError as error:  # such as no space on the disk
        where = getattr(given, "work", "")
        print(f"error: {error}; the measurements so far are in {where}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
