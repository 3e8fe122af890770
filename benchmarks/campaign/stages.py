"""Stages of a campaign, the most valuable first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .step import Missing, Stage, Step, nothing, runs_left_out

NETWORKS = ("resnet18", "resnet50", "mobilenetv2", "bert_base", "vit_base")

SMALL = "benchmarks.campaign.small_network:Small"
SINGLE = "benchmarks.campaign.small_network:Single"
"""Networks of a rehearsal: of two tasks and of one."""

_TINY = (
    *("--", "inputs=[[8,32]]", "search.rounds=1", "search.top_k=2", "search.templates=0", "timing_repeats=1"),
    *("search.processes=0", "workers=1"),
)
_OUT = ("--out", "{results}")
_KEPT = ("--runs-in", "{runs}", "--minutes", "{minutes}")


def records_missing(result: Mapping[str, Any]) -> str:
    """Records missing from a result of `gpu_records`."""
    if result["valid"] >= result["goal"] or (result["finished"] and 2 * result["valid"] >= result["goal"]):
        return ""
    all_tasks = ", although all tasks were measured" if result["finished"] else ""
    return f"{result['goal'] - result['valid']:,} of {result['goal']:,} valid records{all_tasks}"


def gpu_training(result: Mapping[str, Any]) -> str:
    """Training missing from a result of `cost_models`."""
    return "" if result.get("trained_on") else "a training on a GPU"


def untimed_rivals(result: Mapping[str, Any]) -> str:
    """Problems of a result of `gpu_templates` without times of the rivals."""
    rows = [row["name"] for row in result["problems"] if None in (row["library_s"], row["compiler_s"])]
    return f"the rivals of {len(rows)} of {len(result['problems'])} problems" if rows else ""


def cells_left(result: Mapping[str, Any]) -> str:
    """Cells missing from a result of `transfer`."""
    return f"{result['cells_left']} cells" if result["cells_left"] else ""


def networks_left(*names: str) -> Missing:
    """Function that lists the networks without a run in a result of `rivals` or `networks`."""

    def missing(result: Mapping[str, Any]) -> str:
        left = [name for name in names if name not in result["networks"]]
        return ", ".join(left)

    return missing


def _records(part: str, minutes: float, goal: int) -> Step:
    words = ("benchmarks.gpu_records", "--part", part, "--dataset", f"{{work}}/data/gpu-{part}")
    common = (*words, "--minutes", "{minutes}", *_OUT)
    return Step(
        name=part,
        words=(*common, "--goal", str(goal), "--", "target={target}"),
        benchmark="gpu_records",
        variant=part,
        minutes=minutes,
        missing=records_missing,
        dry=(*common, "--goal", "1", "--small", "--", "target={target}", "executor=dry_run"),
    )


RECORDS = Stage(
    "records",
    "50,000 valid records of 1,000 tasks, and random programs for comparison",
    (
        _records("ebs", 40.0, 35_000),
        _records("tensor", 25.0, 15_000),
        _records("held-out", 10.0, 7_500),
        _records("random", 10.0, 6_000),
    ),
)

_MODELS = ("benchmarks.cost_models", "--runs-in", "{runs}", *_OUT)

MODELS = Stage(
    "models",
    "Transformer, trees and their ensemble compared with XGBoost, on held-out tasks and networks",
    (
        Step(
            name="fits",
            words=(
                *(*_MODELS, "--datasets", "{data:gpu-ebs}", "{data:gpu-tensor}"),
                *("--test-dataset", "{data:gpu-held-out}", "--ensemble", "transformer", "trees"),
                *("--models", "transformer", "trees", "mlp", "xgb", "xgb_task", "random"),
                *("--seeds", "0", "1", "--threads", "8", "--variant", "campaign", "--least-programs", "64"),
                *("--", "++train.trainer.accelerator=gpu", "++train.trainer.precision=bf16-mixed"),
            ),
            benchmark="cost_models",
            variant="campaign",
            device="any",
            minutes=12.0,
            missing=gpu_training,
            dry_missing=nothing,
            dry=(
                *(*_MODELS, "--datasets", "{data:gpu}", "--test-dataset", "{data:gpu-networks}"),
                *("--ensemble", "mlp", "--seeds", "0", "1", "--models", "random", "--baseline", "random"),
                *("--epochs", "1", "--variant", "campaign", "--threads", "2"),
            ),
        ),
        *(
            Step(
                name=f"samplers-{part}",
                words=(
                    *(*_MODELS, "--datasets", f"{{data:gpu-{part}}}", "--most-tasks", "150"),
                    *("--test-dataset", "{data:gpu-held-out}", "--models", "transformer", "random"),
                    *("--baseline", "random", "--threads", "8", "--variant", f"campaign-{part}"),
                    *("--", "++train.trainer.accelerator=gpu", "++train.trainer.precision=bf16-mixed"),
                ),
                benchmark="cost_models",
                variant=f"campaign-{part}",
                device="any",
                minutes=3.0,
                missing=gpu_training,
                dry_missing=nothing,
                dry=(
                    *(*_MODELS, "--datasets", "{data:gpu}", "--most-tasks", "30"),
                    *("--test-dataset", "{data:gpu-networks}", "--models", "random"),
                    *("--baseline", "random", "--variant", f"campaign-{part}"),
                ),
            )
            for part in ("ebs", "random")
        ),
    ),
)

_CONTEST = ("benchmarks.gpu_networks", "--target", "{target}", *_KEPT, *_OUT)

CONTEST = Stage(
    "networks",
    "the checkpoint, none, stock MetaSchedule at equal measurements, torch.compile and eager",
    tuple(
        Step(
            name=dtype,
            words=(*_CONTEST, "--dtype", dtype, "--networks", *NETWORKS, "--runs", "3"),
            benchmark="gpu_networks",
            variant=dtype,
            minutes=minutes,
            missing=runs_left_out,
            dry=(
                *(*_CONTEST, "--dtype", dtype, "--networks", SINGLE, "--runs", "1", "--stock-trials", "0"),
                *("--dry-run", *_TINY),
            ),
        )
        for dtype, minutes in (("float32", 160.0), ("bfloat16", 120.0))
    ),
    checkpoints=("cuda",),
)

_TRANSFER = ("benchmarks.transfer", "--work", "{runs}", "--minutes", "{minutes}", *_OUT)

TRANSFER = Stage(
    "transfer",
    "few-shot transfer with ten tasks: H200 to H100 and back, CPU to GPU",
    (
        Step(
            name="gpus",
            # The H100 measured ResNet-18, whose shapes sampled tasks do not have.
            words=(
                *(*_TRANSFER, "--dataset", "{data:gpu-ebs}", "{data:gpu-tuned}"),
                *("--min-tasks", "20", "--k", "5", "10", "--variant", "gpus"),
            ),
            benchmark="transfer",
            variant="gpus",
            device="any",
            minutes=8.0,
            missing=cells_left,
            dry=(
                *(*_TRANSFER, "--dataset", "{data:gpu}", "{data:gpu-tuned}", "--target", "20ff2b56bdb1"),
                *("--k", "10", "--seeds", "1", "--epochs", "1", "--variant", "gpus"),
            ),
        ),
        Step(
            name="cpu-to-gpu",
            words=(
                *(*_TRANSFER, "--dataset", "{data:gpu-ebs}", "--source", "cpu", "{data:cpu}"),
                *("--k", "10", "--seeds", "2", "--variant", "cpu-to-gpu"),
            ),
            benchmark="transfer",
            variant="cpu-to-gpu",
            device="any",
            minutes=6.0,
            missing=cells_left,
            dry=(
                *(*_TRANSFER, "--dataset", "{data:gpu-tuned}", "--source", "cuda", "{data:gpu}"),
                *("--min-tasks", "20", "--k", "10", "--seeds", "1", "--epochs", "1"),
                *("--variant", "cpu-to-gpu"),
            ),
        ),
    ),
    checkpoints=("cpu",),
)

_REUSE = ("benchmarks.reuse", "--target", "{target}", *_KEPT, *_OUT)

REUSE = Stage(
    "reuse",
    "ETO on pairs of four operator types and a network, its ranges, and FamilySeer in stock MetaSchedule",
    (
        Step(
            name="pairs",
            words=(*_REUSE, "--part", "pairs", "--types", "C2D", "BMM", "DEP", "T2D", "--pairs", "2"),
            benchmark="reuse_pairs",
            minutes=16.0,
            missing=runs_left_out,
            dry=(
                *(*_REUSE, "--part", "pairs", "--types", "BMM", "--pairs", "1", "--drawn", "2"),
                *("--trials", "4", "--dry-run"),
            ),
        ),
        Step(
            name="network",
            words=(
                *(*_REUSE, "--part", "networks", "--networks", "resnet18", "--searches", "off", "paper"),
                *("--runs", "1", "--", "target={target}", "budget_s=240"),
            ),
            benchmark="reuse_networks",
            minutes=12.0,
            missing=runs_left_out,
            dry=(
                *("benchmarks.campaign.rehearsal", "{results}", "reuse_networks", "benchmarks.networks"),
                *("--networks", SMALL, "--runs", "1", *_KEPT, "--out", "{runs}", *_TINY),
                *("search.reuse=paper", "search.eto.trials=2"),
            ),
        ),
        Step(
            name="ranges",
            words=(
                *("benchmarks.reuse_ranges", "--variant", "gpu", "--work", "{runs}", "--summarise", *_OUT),
                *("--dataset", "{data:gpu-ebs}"),
            ),
            benchmark="reuse_ranges",
            variant="gpu",
            device="any",
            minutes=1.0,
            missing=lambda result: "" if "gpu-ebs" in result["datasets"] else "gpu-ebs",
            dry=(
                *("benchmarks.reuse_ranges", "--variant", "gpu", "--work", "{runs}", "--summarise", *_OUT),
                *("--dataset", "{data:gpu}", "--least", "3", "--name", "gpu-ebs"),
            ),
        ),
        Step(
            name="families",
            words=("benchmarks.families_stock", "--target", "{target}", *_KEPT, *_OUT),
            benchmark="families_stock",
            minutes=25.0,
            missing=runs_left_out,
            dry=(
                *("benchmarks.families_stock", "--target", "{target}", *_KEPT, *_OUT, "--dry-run"),
                *("--networks", SMALL, "--inputs", "[[8,32]]", "--trials", "2"),
            ),
        ),
    ),
    checkpoints=("cuda",),
)

TEMPLATES = Stage(
    "templates",
    "matrix products compared with cuBLAS, and the closed-form choice with exhaustive measurement",
    (
        Step(
            name="problems",
            words=("benchmarks.gpu_templates", *_OUT),
            benchmark="gpu_templates",
            minutes=12.0,
            missing=untimed_rivals,
            dry=(
                *("benchmarks.campaign.rehearsal", "{results}", "gpu_templates", "benchmarks.gpu_templates"),
                *("--compile-only", "--problems", "square 1024", "--count", "1", "--network", "none"),
            ),
            dry_missing=nothing,
        ),
    ),
)

CPU = Stage(
    "cpu",
    "tuning and rivals on the 16 cores of the machine",
    (
        Step(
            name="networks",
            words=("benchmarks.networks", "--set", "headline", "--runs", "3", *_KEPT, *_OUT),
            benchmark="networks_headline",
            device="cpu-16",
            minutes=25.0,
            missing=networks_left("resnet18", "mobilenetv2", "bert_base"),
            dry=("benchmarks.networks", "--networks", SINGLE, "--runs", "1", *_KEPT, *_OUT, *_TINY),
            dry_benchmark="networks_chosen",
            dry_missing=nothing,
        ),
        Step(
            name="rivals",
            words=("benchmarks.rivals", "--networks", *NETWORKS, *_KEPT, *_OUT),
            benchmark="rivals",
            device="cpu-16",
            minutes=20.0,
            missing=networks_left(*NETWORKS),
            dry=("benchmarks.rivals", "--networks", SINGLE, "--rivals", "eager", *_KEPT, *_OUT, *_TINY),
            dry_missing=nothing,
        ),
    ),
    checkpoints=("cpu",),
)

STAGES: dict[str, Stage] = {
    stage.name: stage for stage in (RECORDS, MODELS, CONTEST, TRANSFER, REUSE, TEMPLATES, CPU)
}
