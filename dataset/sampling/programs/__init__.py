"""Program sampling: the choice of a task's candidates to measure for a dataset."""

from .annealing import AnnealingConfig, AnnealingSampler
from .config import ProgramSamplingConfig, make_program_sampler
from .database import DatabaseSampler, DatabaseTasks
from .evolutionary import EvolutionaryConfig, EvolutionarySampler
from .known_candidates import KnownCandidates, LiveProgram, LivePrograms
from .random_draws import RandomSampler
from .row_evolution import RowEvolutionSampler, evolutionary_sampler
from .sampler import ProgramSampler, best_latency_s
from .scorer import make_scorer
from .setting import SamplerSetting
from .strategy_config import SamplingError, StrategyConfig, StrategyConfigError

__all__ = [
    "AnnealingConfig",
    "AnnealingSampler",
    "DatabaseSampler",
    "DatabaseTasks",
    "EvolutionaryConfig",
    "EvolutionarySampler",
    "KnownCandidates",
    "LiveProgram",
    "LivePrograms",
    "ProgramSampler",
    "ProgramSamplingConfig",
    "RandomSampler",
    "RowEvolutionSampler",
    "SamplerSetting",
    "SamplingError",
    "StrategyConfig",
    "StrategyConfigError",
    "best_latency_s",
    "evolutionary_sampler",
    "make_program_sampler",
    "make_scorer",
]
