"""Rows of cost models: accuracy on held-out tasks and networks, choice of tasks, transfer to new devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from .declare import cells_of, in_order, table_text
from .reading import Result, Results, not_measured

ALL = "all networks"


def compared(result: Result, checkpoints: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Models of the comparisons of a result: metrics on held-out tasks, on networks and over all of these.

    With `checkpoints`, only comparisons whose first checkpoint is one of them.
    """
    for table in result.values["tables"]:
        if checkpoints and table["checkpoints"][:1] != [
            name for name in checkpoints if name in table["checkpoints"]
        ]:
            continue
        task_part, network_part = table["by_task"], table.get("by_network", {})
        for model in in_order("model", list(task_part["models"])):
            whole = network_part.get("models", {}).get(model, {})
            yield {
                "model": model,
                "tested": _data(task_part),
                "variant": result.variant,
                "trained_on": result.values.get("trained_on", "not recorded"),
                "tasks": task_part["models"][model],
                "networks": whole,
                "all": whole.get("networks", {}).get(ALL, {}),
            }


def trained(result: Result) -> list[dict[str, Any]]:
    """Models that were trained for the comparison, on a GPU."""
    return [row for row in compared(result) if "seconds" in row["tasks"]]


def on_pools(result: Result) -> Iterator[dict[str, Any]]:
    """Models of a result of `dense_pools`, with the records that they were trained and tested on."""
    shared = {name: result.values[name] for name in ("tasks", "records", "trained_on")}
    without = " without the tested shapes" if result.values["apart"] else ""
    yield from ({**model, **shared, "without": without} for model in result.values["models"])


def note(found: Sequence[Result]) -> str:
    """Training and test records of the models in the last result."""
    tables = found[-1].values["tables"]
    said = []
    for table in tables:
        training = table["title"].partition("(")[0].partition(". ")[0].strip().removesuffix(".")
        whole = f", and {_data(table['by_network'])} of networks" if "by_network" in table else ""
        said.append(f"{training}; tested on {_data(table['by_task'])}{whole}.")
    return " ".join(said)


def _data(part: Mapping[str, Any]) -> str:
    return f"{part['tasks']['test']} tasks ({part['records']['test']:,} records)"


def selections(result: Result) -> pd.DataFrame:
    """Points of the curves of `task_selection`, by number of tasks, choice and seed."""
    rows = [
        {"choice": choice, "number": number, **point}
        for choice, seeds in result.values["curves"].items()
        for seed in seeds
        for number, point in enumerate(seed)
    ]
    return pd.DataFrame(rows).sort_values("number", kind="stable")


# Transfer.

WITHOUT_HARDWARE = "data.without=[hardware]"
"""Override of a training without hardware features."""

WAYS = {
    ("none", None): "no transfer",
    ("fasor", 10): "10 tasks by Fasor",
    ("k_means", 10): "10 by k-means",
    ("random", 10): "10 at random",
    ("full_finetuned", None): "fine-tuned on all the others",
    ("full", None): "from scratch on all the others",
}
"""Kind of transfer and number of tasks -> their name in the table."""


def adapted(result: Result) -> Iterator[dict[str, Any]]:
    """Targets and ways of transfer in a result whose models saw the new device."""
    for device, target in ({} if _unadapted(result) else result.values["targets"]).items():
        name = target["name"].removesuffix(f" ({device})")
        about = {
            "target": f"{name} ({target['pool_tasks']} tasks to choose from)",
            "model_source": _source(result, target),
        }
        found = {(row["kind"], row["k"]): row for row in target["summary"]}
        yield from ({**found[key], **about, "transfer": way} for key, way in WAYS.items() if key in found)


def _source(result: Result, target: Mapping[str, Any]) -> str:
    """Model that was transferred, and the number of seeds."""
    settings = result.values["settings"]
    kind = next((word for word in settings["train"] if word.startswith("model=")), "model=mlp")
    count = len(target.get("source_devices", ()))
    devices = "another device" if count == 1 else f"{count} other devices"
    seeds = max((row.get("seeds", 1) for row in target["summary"]), default=0)
    named = (
        f"`{settings['source'][0]}`"
        if settings.get("source")
        else f"{kind.removeprefix('model=')} of {devices}"
    )
    return f"{named}, {seeds}"


def _unadapted(result: Result) -> bool:
    """Whether a result of `transfer` has only source models, none of which saw the new device."""
    targets = result.values["targets"].values()
    return all(row["kind"] == "none" for target in targets for row in target["summary"])


def hardware_features(results: Results) -> str:
    """Models for devices that they have not seen, with hardware features and without."""
    pairs: dict[str, dict[bool, Result]] = {}
    for result in filter(_unadapted, results.of("transfer")):
        settings = result.values["settings"]
        train = [word for word in settings["train"] if word != WITHOUT_HARDWARE]
        pairs.setdefault(f"{settings['data_sha256']} {train}", {})[WITHOUT_HARDWARE in settings["train"]] = (
            result
        )
    both = [pair for pair in pairs.values() if len(pair) == 2]
    if not both:
        return not_measured("python -m benchmarks.transfer")
    rows = [
        {
            **target,
            "with": target["summary"][0],
            "without": pair[True].values["targets"][device]["summary"][0],
        }
        for pair in both
        for device, target in pair[False].values["targets"].items()
    ]
    columns = {"new device": "name", "tasks": "test_tasks | ,", "records": "test_records | ,"}
    columns |= {"trained on": "source_records | ,"}
    for head, key, show in (("Spearman", "spearman", ".3f"), ("top-1", "top_1", ".3f"), ("R2", "r2", ".2f")):
        columns |= {f"{head}, {how}": f"{how}.{key} | {show}" for how in ("with", "without")}
    measured = " ".join(f"{pair[False].measured}." for pair in both)
    return table_text(cells_of(pd.json_normalize(rows), columns), measured)
