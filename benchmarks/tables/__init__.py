"""Tables of the pages, written from the results. A table is one function in one of these modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from . import (
    chosen,
    measuring,
    models,
    networks,
    provenance,
    records,
    reuse,
    reuse_searches,
    rivals,
    stock,
    templates,
    today,
)
from .reading import Results

Table = Callable[[Results], str]

TABLES: Mapping[str, Table] = {
    "today": today.today,
    "unseen": networks.unseen,
    "rivals": rivals.networks,
    "rivals-costs": rivals.costs,
    "networks": networks.headline,
    "networks-runs": networks.runs,
    "no-measurement": networks.no_measurement,
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
    "reuse-networks": reuse_searches.networks,
    "templates": templates.shapes,
    "records": records.records,
    "label-noise": records.label_noise,
    "measuring": measuring.measuring,
    "chosen": chosen.chosen,
    "not-chosen": chosen.not_chosen,
    "manifests": provenance.manifests,
}
"""Name in `<!-- table: NAME -->` -> function that writes the table."""
