"""Tables of the pages, written from the results. A table is one function in one of these modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from . import (
    chosen,
    coverage,
    emulation,
    exploration,
    families,
    gpu_templates,
    measuring,
    models,
    networks,
    provenance,
    records,
    repvgg,
    reuse,
    reuse_searches,
    rivals,
    stock,
    sub_space,
    templates,
    today,
)
from .reading import Results

Table = Callable[[Results], str]

TABLES: Mapping[str, Table] = {
    "today": today.today,
    "unseen": networks.unseen,
    "coverage": coverage.coverage,
    "rivals": rivals.networks,
    "rivals-bfloat16": rivals.networks_in_bfloat16,
    "rivals-costs": rivals.costs,
    "rivals-lost": rivals.lost,
    "networks": networks.headline,
    "networks-runs": networks.runs,
    "no-measurement": networks.no_measurement,
    "nothing-to-do": networks.nothing_to_do,
    "checkouts": networks.checkouts,
    "tasks-of-checkouts": stock.checkouts,
    "stock": stock.summary,
    "stock-tasks": stock.tasks,
    "parts": stock.parts,
    "cost-models": models.short,
    "cost-models-tasks": models.by_task,
    "cost-models-networks": models.by_network,
    "cost-models-curve": models.curve,
    "added-records": models.added_records,
    "transfer": models.transfer,
    "reuse-ranges": reuse.ranges,
    "sub-space-weights": sub_space.weights,
    "sub-space": sub_space.kept,
    "reuse-networks": reuse_searches.networks,
    "reuse-shapes": reuse_searches.shapes,
    "reuse-pairs": reuse_searches.pairs,
    "reuse-sets": reuse_searches.sets,
    "templates": templates.shapes,
    "gpu-templates": gpu_templates.problems,
    "repvgg-activations": repvgg.activations,
    "repvgg-deeper": repvgg.deeper,
    "explorer": exploration.methods,
    "records": records.records,
    "label-noise": records.label_noise,
    "measuring": measuring.measuring,
    "cuda-emulation": emulation.programs,
    "cuda-emulation-costs": emulation.costs,
    "chosen": chosen.chosen,
    "not-chosen": chosen.not_chosen,
    "families-accuracy": families.accuracy,
    "families-surrogates": families.surrogates,
    "families-planners": families.planners,
    "manifests": provenance.manifests,
}
"""Name in `<!-- table: NAME -->` -> function that writes the table."""
