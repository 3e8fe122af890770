"""Records from a CUDA machine that is lent for minutes and reaches no package index.

On a machine that reaches an index, gather the wheels and carry the folders `load-*` to the CUDA machine, all
at once or one after the other into one folder. What that machine has already, as `pip freeze` prints it
there, may stay behind:

    python benchmarks/gpu_campaign.py bundle --out bundle --part-size 60M --given freeze.txt

There, in a checkout of this repository, generate for as long as the machine is at hand. What is in the
dataset already is continued; a stop at any moment loses at most the batch in flight. The last words are
passed on to foretune generate:

    python benchmarks/gpu_campaign.py run --bundle bundle --dataset data/h200 --minutes 9 seed=1

Programs that were drawn before leave the time to building and measuring:

    python benchmarks/gpu_campaign.py draw --tasks data/gpu --database outputs/drawn
    python benchmarks/gpu_campaign.py run --bundle bundle --dataset data/h200 --minutes 9 \
        program_sampling.sampler=database program_sampling.database=outputs/drawn

`tune` tunes a network there, with the shipped checkpoint for GPUs; its last words are those of foretune tune:

    python benchmarks/gpu_campaign.py tune --bundle bundle --minutes 9 network=resnet18 output=outputs/h200

`templates` runs `benchmarks.gpu_templates` instead, `networks` times tuned networks beside PyTorch's
(`benchmarks.rivals`), and `models` trains cost models on the GPU (`benchmarks.cost_models`). Words after a
`--` are the benchmark's, and those after a second one override settings. Triton comes with PyTorch for CUDA:

    python benchmarks/gpu_campaign.py networks --minutes 6 -- --networks resnet18 -- budget_s=150
    python benchmarks/gpu_campaign.py networks --minutes 6 -- --networks resnet18 --variant cuda-bfloat16 \
        -- budget_s=150 lowering.dtype=bfloat16
    python benchmarks/gpu_campaign.py models --minutes 6 -- --tables cpu --models transformer lstm

`--dry-run` goes through every step without a GPU; its records are marked as simulated. Until the environment
is made this script needs nothing but Python.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType

if not __package__:  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.campaign_environment import check_machine, cuda_environment, make_environment
from benchmarks.wheel_bundle import CampaignError, bundle, parse_size

DRY_RUN_TARGET = "nvidia/nvidia-h100"
# More tasks than a lease has time for, and more work in each than on a CPU. A task has four rounds, so that
# its scorer learns three times. Words of the user override these.
GENERATION = (
    "tasks=400",
    "records_per_task=128",
    "per_round=32",
    "program_sampling.evolutionary.population_size=64",
    "task_sampling.min_flops=1e6",
    "task_sampling.max_flops=2e10",
)
# Seconds at the end of a run for the batch in flight and for merging shards.
FINISH_S = 30.0
# Seconds at the end of tuning for building the network, checking its outputs, and timing it.
DEPLOY_S = 90.0
PATIENCE_S = 8.0


# -- the run


class Stopwatch:
    """Tells how long each step took, and how much of the time allowed is left."""

    def __init__(self, minutes: float) -> None:
        self.minutes = minutes
        self.started = time.monotonic()
        self.deadline = self.started + 60 * minutes

    @property
    def left_s(self) -> float:
        return self.deadline - time.monotonic()

    def require(self, spare_s: float, work: str) -> None:
        """Raises CampaignError if all that is left is what the end takes."""
        if self.left_s <= spare_s:
            raise CampaignError(f"--minutes {self.minutes}: nothing is left to {work} in; give more")

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        begin = time.monotonic()
        print(f"[{begin - self.started:6.1f} s] {name}", flush=True)
        yield
        now = time.monotonic()
        print(f"[{now - self.started:6.1f} s] {name}: took {now - begin:.1f} s", flush=True)


def run(
    dataset: Path,
    minutes: float,
    bundle: Path | None,
    target: str | None,
    dry_run: bool,
    environment: Path,
    overrides: Sequence[str],
) -> int:
    """Generates for `minutes`, all steps together; the exit status of foretune generate."""
    watch, python = _begun(minutes, bundle, dry_run, environment)
    watch.require(FINISH_S, "generate")
    command = [
        *(str(python), "-m", "foretune", "generate", f"dataset={dataset}"),
        *_device(target, dry_run),
        *("self_check=true", f"minutes={(watch.left_s - FINISH_S) / 60:.3f}", *GENERATION, *overrides),
    ]
    with watch.step("self-check and generation"):
        status = run_until(command, cuda_environment(python), watch.deadline - FINISH_S / 2)
    if dataset.exists():
        with watch.step("merging shards"):
            subprocess.run([str(python), __file__, "merge", "--dataset", str(dataset)])
        print_files(dataset)
    return status


def tune(
    minutes: float,
    bundle: Path | None,
    target: str | None,
    dry_run: bool,
    environment: Path,
    overrides: Sequence[str],
) -> int:
    """Tunes a network for at most `minutes`, all steps together; the exit status of foretune tune."""
    watch, python = _begun(minutes, bundle, dry_run, environment)
    watch.require(DEPLOY_S, "search")
    command = [
        *(str(python), "-m", "foretune", "tune", *_device(target, dry_run)),
        *(f"budget_s={watch.left_s - DEPLOY_S:.0f}", *overrides),
    ]
    with watch.step("tuning"):
        return run_until(command, cuda_environment(python), watch.deadline)


def _device(target: str | None, dry_run: bool) -> list[str]:
    """Overrides of a foretune command for the GPU, or for one that is not there."""
    if dry_run:
        return [f"target={target or DRY_RUN_TARGET}", "executor=dry_run"]
    return [f"target={target or 'cuda'}"]


def _begun(minutes: float, bundle: Path | None, dry_run: bool, environment: Path) -> tuple[Stopwatch, Path]:
    """Clock and Python of a campaign on a checked machine: that of the bundle's environment, or this one."""
    watch = Stopwatch(minutes)
    check_machine(dry_run)
    if not bundle:
        if importlib.util.find_spec("foretune") is None:
            raise CampaignError(
                "foretune is not installed for this Python; give --bundle, or install it first"
            )
        return watch, Path(sys.executable)
    with watch.step("environment"):
        return watch, make_environment(bundle, environment)


@dataclass(frozen=True)
class Study:
    """A benchmark that needs a GPU, with its words there and in a dry run.

    Overrides of a command of foretune come last, behind a `--`.
    """

    module: str
    title: str
    words: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    dry_words: tuple[str, ...] = ()
    dry_overrides: tuple[str, ...] = ()

    def arguments(self, words: Sequence[str], dry_run: bool) -> list[str]:
        """The benchmark's words together with those of the user."""
        own = self.dry_words if dry_run else self.words
        overrides = self.dry_overrides if dry_run else self.overrides
        behind = [*(() if "--" in words else ("--",)), *overrides] if overrides else []
        return [*own, *words, *behind]


_DRY = ("--out", "outputs/dry-run")
STUDIES = {
    "templates": Study(
        "benchmarks.gpu_templates", "time GPU templates on this machine", dry_words=("--compile-only",)
    ),
    "networks": Study(
        "benchmarks.rivals",
        "time tuned networks beside PyTorch's on this machine",
        words=("--target", "cuda"),
        dry_words=("--target", DRY_RUN_TARGET, "--variant", "cuda", *_DRY),
        dry_overrides=("executor=dry_run",),
    ),
    "models": Study(
        "benchmarks.cost_models",
        "train cost models on this machine's GPU",
        words=("--variant", "gpu-trained"),
        overrides=("++train.trainer.accelerator=gpu", "++train.trainer.precision=bf16-mixed"),
        dry_words=("--epochs", "1", *_DRY),
    ),
}


def study(
    name: str, minutes: float, bundle: Path | None, dry_run: bool, environment: Path, words: Sequence[str]
) -> int:
    """Runs a benchmark for at most `minutes`; its exit status."""
    watch, python = _begun(minutes, bundle, dry_run, environment)
    chosen = STUDIES[name]
    command = [str(python), "-m", chosen.module, *chosen.arguments(words, dry_run)]
    with watch.step(name):
        return run_until(command, cuda_environment(python), watch.deadline)


def run_until(command: Sequence[str], environment: dict[str, str], deadline: float) -> int:
    """Runs a command that stops cleanly at SIGINT, and gives its exit status.

    It is told so at the deadline, or as soon as this process is told to stop, and killed some seconds later.
    """
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    told = [signal.SIGINT, signal.SIGTERM]

    def pass_on(number: int, frame: FrameType | None) -> None:
        nonlocal deadline
        deadline = min(deadline, time.monotonic())

    before = [signal.signal(number, pass_on) for number in told]
    try:
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.2)
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
        return process.wait()
    finally:
        for number, handler in zip(told, before, strict=True):
            signal.signal(number, handler)


def merge(dataset: Path) -> None:
    """Few files instead of one a batch; run in the environment."""
    from foretune.dataset.store import RecordStore

    store = RecordStore(dataset)
    with store.writing():
        store.set_aside_bad_shards()
        store.compact()


def draw(tasks: Path, database: Path, target: str, programs: int, seed: int) -> None:
    """Draws random programs here for a run elsewhere; this Python must have foretune."""
    from foretune.errors import UserError

    from benchmarks.drawn_programs import draw as draw_programs

    try:
        total = draw_programs(tasks, database, target, programs, seed)
    except UserError as error:
        raise CampaignError(str(error)) from error
    print(f"drew {total} programs into {database}; carry it, and measure them with run")


def print_files(dataset: Path) -> None:
    """Files that are there to fetch."""
    for path in sorted(path for path in dataset.iterdir() if path.is_file() and path.stat().st_size):
        print(f"{path}: {path.stat().st_size / 1e6:.2f} MB")


# -- the command


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    wanted = commands.add_parser("bundle", help="gather wheels for a machine without a package index")
    wanted.add_argument("--out", type=Path, required=True)
    wanted.add_argument("--part-size", type=parse_size, default=parse_size("60M"), help="default 60M")
    wanted.add_argument("--python", default="3.12", help="Python of that machine, default 3.12")
    wanted.add_argument("--given", type=Path, help="what pip freeze prints there, which is left out")
    wanted.add_argument("--with-torch", action="store_true", help="for a machine without torch (gigabytes)")
    here = argparse.ArgumentParser(add_help=False)
    here.add_argument("--minutes", type=float, required=True, help="of the whole command")
    here.add_argument("--bundle", type=Path, help="without it, this Python must have foretune")
    here.add_argument("--environment", type=Path, default=Path(tempfile.gettempdir(), "foretune-env"))
    here.add_argument("--dry-run", action="store_true", help="everything but the GPU")
    device = argparse.ArgumentParser(add_help=False)
    device.add_argument("--target", help=f"default cuda; with --dry-run {DRY_RUN_TARGET}")
    wanted = commands.add_parser("run", parents=[here, device], help="generate records on this machine")
    wanted.add_argument("--dataset", type=Path, required=True)
    wanted.add_argument("overrides", nargs="*", help="settings of foretune generate, such as seed=1")
    wanted = commands.add_parser("tune", parents=[here, device], help="tune a network on this machine")
    wanted.add_argument("overrides", nargs="*", help="settings of foretune tune, such as network=resnet18")
    for name, one in STUDIES.items():
        wanted = commands.add_parser(name, parents=[here], help=one.title)
        wanted.add_argument("words", nargs="*", help=f"for {one.module}, after a --")
    wanted = commands.add_parser("draw", help="draw programs here that run measures elsewhere")
    wanted.add_argument("--tasks", type=Path, required=True, help="dataset with the tasks")
    wanted.add_argument("--database", type=Path, required=True, help="folder; one that exists is continued")
    wanted.add_argument("--target", default=DRY_RUN_TARGET, help="(%(default)s)")
    wanted.add_argument("--programs", type=int, default=16, help="of each task, at most (%(default)s)")
    wanted.add_argument("--seed", type=int, default=0)
    wanted = commands.add_parser("merge", help="merge the shards of a run that was killed")
    wanted.add_argument("--dataset", type=Path, required=True)
    return parser


def main(words: Sequence[str] | None = None) -> int:
    arguments = vars(make_parser().parse_args(words))
    commands: dict[str, Callable[..., int | None]] = {
        "bundle": bundle,
        "run": run,
        "tune": tune,
        **{name: partial(study, name) for name in STUDIES},
        "draw": draw,
        "merge": merge,
    }
    command = commands[arguments.pop("command")]
    try:
        return command(**arguments) or 0
    except CampaignError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
