"""Surroundings of the tests: folders of their own, repeatable property tests, and the emulated GPU."""

from __future__ import annotations

import functools
import gc
import inspect
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from foretune.errors import FULL_ERROR
from foretune.signals import ENDING
from hypothesis import settings
from support.checkout_guard import CheckoutGuard
from support.cuda_emulation import EmulatedGpu, unavailable_reason

# A test that draws anew in each run fails one day for an input that nobody saw. A busy machine is no failure,
# so there is no deadline.
settings.register_profile("repeatable", derandomize=True, deadline=None, print_blob=True)

# Looks for inputs that fail: HYPOTHESIS_PROFILE=explore, or pytest's --hypothesis-profile=explore.
settings.register_profile("explore", derandomize=False, deadline=None, print_blob=True)

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or "repeatable")


# Hydra reads some fifty files to compose settings; libyaml does it in a fifth of the time.
yaml.SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_OF_THE_USER = (
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
    FULL_ERROR,
)
"""Environment variables that lead to the user's files, or change what a command prints."""


def pytest_configure(config: pytest.Config) -> None:
    """Gives the run a home of its own, before anything is imported; workers of xdist inherit it.

    Python may keep compiled files, as tests start many processes that import the same modules. Threads of
    OpenMP sleep while they wait: on cores with other work, small trainings took twenty times as long.
    """
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["OMP_WAIT_POLICY"] = "passive"
    if hasattr(config, "workerinput"):
        return
    home = tempfile.TemporaryDirectory(prefix="foretune-tests-")
    config.add_cleanup(home.cleanup)
    os.environ["HOME"] = home.name
    for name in _OF_THE_USER:
        os.environ.pop(name, None)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out files without the mark that `-m` asks for, as their imports take long."""
    mark = config.getoption("markexpr")
    if not mark.isidentifier() or not collection_path.match("test_*.py"):
        return None
    return f"mark.{mark}" not in collection_path.read_text(encoding="utf-8") or None


LONGEST = (
    "benchmarks/campaign/test_rehearsal.py",
    "dataset/generation/test_generate.py",
    "inference/test_tune.py",
    "dataset/measure/executors/test_rpc.py",
    "inference/dynamic/test_dynamic_images.py",
    "cuda_emulation/test_reuse.py",
    "test_cli.py",
    "inference/test_int8.py",
    "test_tensor_core_records.py",
    "dataset/measure/executors/test_ray.py",
    "cuda_emulation/test_devices.py",
    "inference/deploy/test_comparison.py",
    "compiler/operators/test_numerics.py",
    "benchmarks/test_faults.py",
    "compiler/networks/alternatives/test_call_chains.py",
    "cuda_emulation/test_tensor_cores.py",
    "compiler/templates/cpu/test_programs.py",
    "test_examples.py",
    "inference/test_alternatives.py",
    "inference/planners/test_assembly.py",
    "compiler/templates/gpu/test_gpu_templates.py",
    "inference/dynamic/test_dynamic_run.py",
    "benchmarks/test_dynamic.py",
    "compiler/templates/cpu/dynamic/test_kernels.py",
)
"""Test files of more than about 15 seconds, the longest first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Starts with the longest files and other files of slow tests: none is left for a parallel run's end."""
    tests = Path(__file__).parent
    places = {tests / name: place for place, name in enumerate(LONGEST)}
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: places.get(item.path, len(places) + (item.path not in slow)))


_NEAREST_FRAMES = 5
"""Frames that TVMScript may need of a stack: its own and those of the class that it reads."""


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """Shortens `inspect.stack`, which TVMScript calls for each function that it reads.

    A test file is imported from some hundred frames, most of them without a file. For each of those,
    `inspect` looks through all modules, which would take a third of the collection.

    Garbage is not looked for meanwhile, and later not among what was imported and collected, millions of
    objects.
    """

    def stack(context: int = 1) -> list[inspect.FrameInfo]:
        frame, found = sys._getframe(1), []
        while frame is not None and len(found) < _NEAREST_FRAMES:
            found.append(inspect.FrameInfo(frame, *inspect.getframeinfo(frame, context)))
            frame = frame.f_back
        return found

    gc.disable()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inspect, "stack", stack)
        yield
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def guard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CheckoutGuard]:
    """Guard of the checkout; fixtures of a wider scope than a test work in a folder of the run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("run"))
        guard = CheckoutGuard()
        yield guard
        guard.stop()


@pytest.fixture(scope="session", autouse=True)
def quick_torch() -> None:
    """Makes torch quicker, if tests import it.

    With small tensors, its threads spin while they wait. Each export of a network looks up all operators of
    torch once a namespace, which would take a quarter of it; the second time finds nothing new.
    """
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    if (registry := sys.modules.get("torch._export.utils")) is not None:
        registry._materialize_cpp_cia_ops = functools.cache(registry._materialize_cpp_cia_ops)


@pytest.fixture(scope="session", autouse=True)
def quick_builders() -> None:
    """Leaves out MetaSchedule's check of a new builder, which starts a process for it alone."""
    if (module := sys.modules.get("tvm.s_tir.meta_schedule.builder.local_builder")) is not None:
        module.LocalBuilder._cls._sanity_check = lambda _: None


@pytest.fixture(scope="session", autouse=True)
def quick_peaks() -> None:
    """Measures the peaks of this machine on small arrays, if tests import the measurement."""
    if "foretune.dataset.hardware.cpu" in sys.modules:
        import_module("support.quick_peaks")


@pytest.fixture(scope="session", autouse=True)
def servers_last() -> None:
    """Keeps idle servers of warm processes for later tests, as each imports TVM when it starts."""
    if (warm := sys.modules.get("foretune.compiler.host.warm")) is not None:
        warm.IDLE_S = 300.0


@pytest.fixture(scope="session", autouse=True)
def contestants_share_imports() -> None:
    """Forks contestants from a process that has their imports, which take most of a short run.

    Tests of `deploy.comparison`, and runs of commands in processes of their own, start them as users do.
    """
    if (runners := sys.modules.get("foretune.inference.deploy.runners")) is not None:
        runners.SHARES_IMPORTS = True


@pytest.fixture(autouse=True)
def own_folder(guard: CheckoutGuard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Starts each test in its `tmp_path`, and fails the one that touches the checkout."""
    monkeypatch.chdir(tmp_path)
    yield
    touched, guard.seen = guard.seen, []
    assert not touched


@pytest.fixture
def terminal_signals() -> Iterator[None]:
    """Lets this process and its children hear signals that nohup, or the background of a shell, ignores."""
    numbers = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: None, signal.SIGHUP: None}
    before = {
        number: signal.signal(number, handler or signal.SIG_DFL)
        for number, handler in numbers.items()
        if signal.getsignal(number) is signal.SIG_IGN
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def signal_handlers_stay() -> Iterator[None]:
    """A handler that a test leaves behind would change how the later ones end."""
    before = {number: signal.getsignal(number) for number in ENDING}
    yield
    assert {number: signal.getsignal(number) for number in ENDING} == before


@pytest.fixture(scope="session")
def cuda_libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of libraries that the emulation of CUDA compiled, shared by the workers of a run."""
    folder = tmp_path_factory.getbasetemp()
    return (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "cuda_libraries"


@pytest.fixture(scope="session")
def gpu(cuda_libraries: Path) -> Iterator[EmulatedGpu]:
    """Emulated GPU for all tests of a run; its process starts at the first use."""
    if reason := unavailable_reason():
        pytest.skip(reason)
    with EmulatedGpu(cuda_libraries) as emulated:
        yield emulated
