"""Program sampling: the choice of a task's candidates to measure for a dataset."""

from .annealing import AnnealingConfig, AnnealingSampler
from .config import ProgramSamplingConfig, make_program_sampler
from .database import DatabaseSampler, DatabaseTasks
from .evolutionary import EvolutionarySampler, EvolutionConfig
from .random_draws import RandomSampler
from .row_evolution import RowEvolutionSampler, evolutionary_sampler
from .sampler import ProgramSampler, Proposal, SamplingError, best_latency_s
from .scorer import make_scorer

__all__ = [
    "AnnealingConfig",
    "AnnealingSampler",
    "DatabaseSampler",
    "DatabaseTasks",
    "EvolutionConfig",
    "EvolutionarySampler",
    "ProgramSampler",
    "ProgramSamplingConfig",
    "Proposal",
    "RandomSampler",
    "RowEvolutionSampler",
    "SamplingError",
    "best_latency_s",
    "evolutionary_sampler",
    "make_program_sampler",
    "make_scorer",
]
