"""Settings of a tuning run: conf/tune.yaml."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tvm.support.cc import get_cc
from tvm.target import Target

from ...compiler.codegen.linker import linker
from ...compiler.networks import AS_FASTEST, Lowering
from ...compiler.networks.dynamic.dynamic_inputs import is_dynamic
from ...compiler.targets import is_cpu
from ...configuration import check_least
from ...dataset.measure import ExecutorConfig, MeasureConfig, check_runs
from ...errors import UserError
from ...models.checkpoints.shipped import AUTO
from ..deploy.rivals.registry import DEFAULT_RIVALS, check_rivals
from ..report.energy import ReportConfig
from ..search.config import OneShotConfig
from .network_set import Member, check_export, export_of, members_of

REFUSE, ALLOW = "refuse", "allow"
"""Calls with sizes outside of the ranges of a dynamic network: an error, or code without kernels."""


class TuneConfigError(UserError, ValueError):
    """A setting of the tuning run is invalid."""


@dataclass(frozen=True)
class TuneConfig:
    """Settings of one tuning run; the fields are those in conf/tune.yaml."""

    network: Any
    output: Path | None
    database: Path
    checkpoint: str | None = AUTO
    target: Any = "llvm"
    inputs: list[Any] | None = None
    kwargs: dict[str, Any] | None = None
    batch: Any = 1
    dims: dict[str, Any] | None = None
    beyond: str = REFUSE
    check_inputs: Path | None = None
    seed: int = 0
    retune: bool = False
    require_database: bool = False
    check_memory: bool = True
    cache: bool = True
    budget_s: float | None = None
    latency_target_s: float | None = None
    export: Path | None = None
    anytime: bool = False
    rivals: list[str] = field(default_factory=lambda: [*DEFAULT_RIVALS])
    rival_limit_s: float = 120.0
    timing_repeats: int = 10
    untuned_limit_s: float | None = 1.0
    workers: int | None = None
    profile: bool = False
    lowering: Lowering = AS_FASTEST
    search: OneShotConfig = field(default_factory=OneShotConfig)
    measure: MeasureConfig = field(default_factory=MeasureConfig)
    executor: ExecutorConfig = field(default_factory=ExecutorConfig)
    report: ReportConfig = field(default_factory=ReportConfig)

    def __post_init__(self) -> None:
        object.__setattr__(self, "search", self.search.for_reuse())
        object.__setattr__(self, "lowering", self.search.applied_to(self.lowering))
        self._check_set()
        self._check_anytime()
        self._check_beyond()
        if self.folder.is_file():
            raise TuneConfigError(f"output={self.folder}: is a file; name a folder for the report")
        if self.require_database and self.retune:
            raise TuneConfigError("require_database=true retune=true: one excludes the other; leave one out")
        check_least(self, {"timing_repeats": 1, "workers": 1, "seed": 0}, TuneConfigError)
        check_rivals(self.rivals)
        if not self.rival_limit_s > 0:
            raise TuneConfigError(f"rival_limit_s={self.rival_limit_s}: must be seconds over 0")
        for name in ("budget_s", "latency_target_s", "untuned_limit_s"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise TuneConfigError(f"{name}={value}: seconds over 0, or null for none")
        kind = self.executor.kind
        if self.search.measure and kind == "none":
            raise TuneConfigError(
                "executor=none: candidates cannot be measured without a device; use search=no_measurement, "
                "or another executor"
            )
        if kind == "replay" and not self.search.strategy_class.draws_from_pool:
            raise TuneConfigError(
                f"executor=replay search/strategy={self.search.strategy.name}: a replay has no latency for "
                "candidates outside of its pool; use search/strategy=pool"
            )
        if not self.search.measure and kind not in ("none", "local"):
            raise TuneConfigError(
                f"search.measure=false: executor={kind} has nothing to measure; use executor=none with "
                "executor.hardware=, the device to search for"
            )
        if self.export is not None and kind not in ("local", "none"):
            raise TuneConfigError(
                f"export={self.export}: only what runs here is compiled, and executor={kind} "
                "is elsewhere; leave it out, or use executor=local"
            )
        if self.export is not None and get_cc() is None:
            raise TuneConfigError(
                f"export={self.export}: a library is linked by a C++ compiler; install g++, or leave it out"
            )

    def _check_anytime(self) -> None:
        """Rejects settings with which no library can be written before the search ends."""
        if not self.anytime:
            return
        if self.export is None:
            raise TuneConfigError(
                "anytime=true: export= names no file for the library; give one, such as export=network.so"
            )
        if self.executor.kind != "local" or not self.search.measure:
            wrong = "search.measure=false" if not self.search.measure else f"executor={self.executor.kind}"
            raise TuneConfigError(
                f"anytime=true {wrong}: better libraries follow from measurements on this machine; use "
                "executor=local and a search that measures, or leave anytime out"
            )

    def _check_beyond(self) -> None:
        """Rejects another word, and one for sizes outside of ranges without ranges."""
        if self.beyond not in (REFUSE, ALLOW):
            raise TuneConfigError(f"beyond={self.beyond}: use {REFUSE} or {ALLOW}")
        if self.beyond == ALLOW and not self.is_dynamic:
            raise TuneConfigError(
                f"beyond={ALLOW}: this network has no ranges; give one, as in dims.n=1:512, or leave it out"
            )

    def _check_set(self) -> None:
        """Rejects settings that a set of networks does not support."""
        check_export(self.export, self.is_set)
        if not self.is_set:
            return
        if self.anytime:
            raise TuneConfigError(
                "anytime=true: the networks of a set get their libraries after the joint search; leave it "
                "out, or tune them one by one with the same database="
            )
        if self.latency_target_s is not None:
            raise TuneConfigError(
                f"latency_target_s={self.latency_target_s}: several networks have no latency in common; "
                "leave it out, or tune one network"
            )
        if self.kwargs and len({member.network for member in self.members}) > 1:
            raise TuneConfigError("kwargs: several networks take no factory arguments; tune them one by one")
        if self.check_inputs is not None:
            raise TuneConfigError(
                f"check_inputs={self.check_inputs}: several networks have no inputs in common; leave it out, "
                "or tune one network"
            )
        if self.report.beside is not None:
            raise TuneConfigError(
                f"report.beside={self.report.beside}: a curve of several networks stands beside none; leave "
                "it out"
            )

    @property
    def members(self) -> list[Member]:
        """Networks of the run."""
        batch = 1 if isinstance(self.batch, str) else self.batch  # a range, which has no size of its own
        return members_of(self.network, batch, self.inputs)

    @property
    def folder(self) -> Path:
        """Folder of the report: `output`, or by default a folder named after the networks."""
        if self.output is not None:
            return self.output
        names = dict.fromkeys(member.name for member in members_of(self.network, inputs=self.inputs))
        return Path("outputs/tune", "-".join(names))

    @property
    def is_dynamic(self) -> bool:
        """Whether extents of the inputs are symbols with ranges."""
        return is_dynamic(self.inputs, self.batch, self.dims)

    @property
    def is_set(self) -> bool:
        """Whether the run tunes several networks."""
        return len(self.members) > 1

    def of_member(self, member: Member) -> TuneConfig:
        """Settings to compile, check and time one network of a set after the search."""
        return replace(
            self,
            network=member.network,
            batch=member.batch,
            inputs=member.inputs,
            output=self.folder / member.name,
            export=export_of(self.export, member, self.is_set),
            retune=False,
            budget_s=None,
        )

    def check_for(self, target: Target) -> None:
        """Raises if the target rules out the data type, the executor, an export or an early library.

        The errors are MissingInstructionError, ExecutorConfigError, LinkerError and TuneConfigError.
        """
        self.lowering.check_for(target)
        check_runs(self.executor, target)
        if self.export is not None:
            linker(target)
        if self.anytime and not is_cpu(target):
            raise TuneConfigError(
                f"anytime=true target={target.kind.name}: a task without a measured schedule does not run on "
                "a GPU; leave anytime out"
            )

    @property
    def compiles_predictions(self) -> bool:
        """Whether search processes compile the programs that they predict, as the run links them later."""
        linked = self.export is not None or self.executor.kind == "local"
        return self.cache and linked and not self.search.measure

    @property
    def breadth_first(self) -> bool:
        """Whether each task gets a quick round before the first full search."""
        return self.budget_s is not None and self.search.measure

    @property
    def network_arguments(self) -> dict[str, Any]:
        """Arguments of `load_network` for the only network."""
        return self.members[0].arguments(self.seed, self.kwargs)

    @property
    def task_settings(self) -> dict[str, Any]:
        """Settings that determine the tasks of the network, and whether they are measured."""
        return {
            "measured": self.search.measure,
            **{name: getattr(self, name) for name in ("network", "inputs", "batch", "kwargs")},
            "lowering": asdict(self.lowering),
        }
