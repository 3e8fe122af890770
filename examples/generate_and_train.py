"""Generate a tiny dataset and train a draft model on it.

    python examples/generate_and_train.py [folder]

The script corresponds to these commands, with much smaller settings:

    foretune generate dataset=data/mine tasks=200 records_per_task=100
    foretune train dataset=data/mine model=draft
"""

from __future__ import annotations

import sys
from pathlib import Path

from foretune.dataset.generate import run as generate
from foretune.dataset.generation.config import GenerateConfig
from foretune.dataset.records.split import SplitConfig
from foretune.dataset.sampling.programs import ProgramSamplingConfig
from foretune.models.architectures.registry import ModelConfig
from foretune.training.fitting.config import TrainConfig, TrainerConfig
from foretune.training.train import run as train


def main(folder: Path) -> None:
    """Measures 6 random programs of each of 4 tasks, and trains a draft model for two epochs."""
    dataset = folder / "dataset"
    generate(
        GenerateConfig(
            dataset,
            tasks=4,
            records_per_task=6,
            per_round=6,
            task_sampling={"operators": {"dense": 1.0}, "max_flops": 2e6},
            program_sampling=ProgramSamplingConfig(sampler="random"),
            samplers=0,  # a tiny dataset needs no processes that sample
            datasheet=False,
        )
    )
    result = train(
        TrainConfig(
            dataset,
            run_dir=folder / "run",
            checkpoint_dir=folder / "checkpoint",
            model=ModelConfig("draft", {"width": 32}),
            split=SplitConfig(validation=0.25, test=0.25),
            trainer=TrainerConfig(max_epochs=2, progress_bar=False),
        )
    )
    print(f"trained {result.epochs} epochs; use it with search.strategy.checkpoint={result.checkpoint_dir}")


if __name__ == "__main__":  # measurement starts processes
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "outputs/example"))
