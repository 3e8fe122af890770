"""A small task with candidates on real TVM, and a checkpoint with random weights for it."""

import numpy as np
import torch
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.replay import replay
from foretune.compiler.tvm_compat import design_spaces, make_tune_context, parse_target
from foretune.dataset.features import FEATURE_VERSION
from foretune.dataset.features.assembly import FeatureAssembler
from foretune.dataset.hardware import Hardware
from foretune.models.architectures.registry import ModelConfig, build_model
from foretune.models.checkpoints.card import Card, DataSummary, SplitSummary
from foretune.models.checkpoints.checkpoint import save_checkpoint
from foretune.models.scaling.normaliser import Normaliser
from foretune.models.scaling.target import TargetConfig

HARDWARE = Hardware("Some CPU", "cpu", 2, 2.5, 256, 32768, 524288, 33554432, 100.0, 20.0)
TARGET = parse_target("llvm")
TASK = to_task(Dense(rows=8, in_features=64, out_features=32, epilogue="bias_relu"))


def random_checkpoint(folder, counted=False, seed=0):
    """A model with random weights, normalised on real candidates, that may read counts."""
    table = FeatureAssembler(HARDWARE, counted=counted).assemble(*candidates_of(TASK))
    normaliser = Normaliser.fit(table, np.arange(len(table)))
    config = ModelConfig("transformer", {"width": 16, "layers": 1, "heads": 2, "feedforward": 16})
    torch.manual_seed(seed)
    card = Card(
        feature_version=FEATURE_VERSION,
        model=config,
        target=TargetConfig("score"),
        normaliser=normaliser,
        data=DataSummary("0" * 64, records=6, tasks=1, hardware_ids=[], operators=["dense"]),
        split=SplitSummary({"by": "task", "seed": 0}, [], [], []),
        metrics={},
        seed=0,
    )
    save_checkpoint(folder, build_model(config, normaliser.dims), card)
    return folder


def candidates_of(task, count=6):
    """Sampled candidates of a task with their context, one of them for each design space in turn."""
    context = make_tune_context(task.mod, TARGET, seed=0, name=task.name)
    spaces = design_spaces(context, task.name)
    found = []
    while len(found) < count:
        candidate = replay(context, spaces[len(found) % len(spaces)].trace.as_json())
        assert candidate is not None
        found.append(candidate)
    return context, found
