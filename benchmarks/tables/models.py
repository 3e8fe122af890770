"""Tables of cost models: accuracy on held-out tasks, added records, transfer to new devices."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from .reading import Result, Results, joined, markdown, not_measured

MODELS = {
    "cpu": "`cpu`, shipped",
    "cpu-latency": "`cpu-latency`, shipped",
    "cpu-draft": "`cpu-draft`, shipped",
    "cuda": "`cuda`, shipped",
    "cuda-latency": "`cuda-latency`, shipped",
    "cuda-draft": "`cuda-draft`, shipped",
    "ensemble": "ensemble of both",
    "trees": "boosted trees",
    "trees_uncounted": "boosted trees without counts",
    "fasor": "Fasor's Transformer",
    "transformer": "one Transformer",
    "one_shot_tuner": "One-Shot Tuner's Transformer, 1,024 wide",
    "mlp": "one MLP",
    "lstm": "one LSTM",
    "draft": "one MLP over the draft vector",
    "xgb": "XGBoost as MetaSchedule fits it",
    "xgb_task": "XGBoost with task, draft and hardware features",
    "random": "random order",
}
"""Names of contestants in the order of the tables."""

ALL = "all networks"

GPU_TRAINED = {
    "gpu-trained": "log score",
    "gpu-trained-full-width": "log score",
    "gpu-trained-efficiency": "efficiency",
}
"""Target of the models of a result that were trained on a GPU, by its variant."""

CAMPAIGN = "campaign"
"""First word of the variants of results of a campaign on a GPU, which have a table of their own."""

COUNTS = "counts"
"""Variant of the result of models with and without counts of programs."""


def models_of(part: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Contestants of one comparison."""
    found = part["models"]
    return [(MODELS.get(name, name), found[name]) for name in in_order(found)]


def in_order(names: Iterable[str]) -> list[str]:
    """Names of contestants in the order of the tables."""
    order = list(MODELS)
    return sorted(names, key=lambda name: order.index(name) if name in order else len(order))


def cells(values: Mapping[str, Any], *keys: str) -> list[str]:
    """Values with three digits, R2 with two; a dash for one that is missing."""
    return ["-" if values.get(key) is None else f"{values[key]:.{2 if key == 'r2' else 3}f}" for key in keys]


def _tables(results: Results) -> list[tuple[Result, Mapping[str, Any]]]:
    """Comparisons of all results: the last one of each shipped checkpoints, then the reconstructed ones.

    Reconstructed ones are of earlier checkpoints, which they leave out.
    """
    found = [
        (result, table)
        for result in results.of("cost_models")
        if result.manifest["variant"] not in (*GPU_TRAINED, COUNTS)
        and not result.manifest["variant"].startswith(CAMPAIGN)
        for table in result.values["tables"]
    ]
    last: dict[str, tuple[Result, Mapping[str, Any]]] = {}
    for result, table in sorted(found, key=lambda one: one[0].manifest["started_at"] or ""):
        if not result.manifest["reconstructed"]:
            last |= dict.fromkeys(table["checkpoints"], (result, table))
    measured = []
    for name in in_order(last):
        result, table = last[name]
        shown = [other for other in table["checkpoints"] if last[other][1] is table]
        if name == shown[0]:
            measured.append((result, _without(table, set(table["checkpoints"]) - set(shown))))
    earlier = [
        (result, _without(table, table["checkpoints"]))
        for result, table in found
        if result.manifest["reconstructed"]
    ]
    return [*measured, *earlier]


def _without(table: Mapping[str, Any], names: Container[str]) -> dict[str, Any]:
    """A comparison without some of its models."""
    parts = {
        key: {**part, "models": {name: of for name, of in part["models"].items() if name not in names}}
        for key, part in table.items()
        if key in ("by_task", "by_network")
    }
    return {**table, **parts, "checkpoints": [name for name in table["checkpoints"] if name not in names]}


def _data(part: Mapping[str, Any]) -> str:
    return f"{part['tasks']['test']} tasks ({part['records']['test']:,} records)"


def _training(table: Mapping[str, Any]) -> str:
    """First sentence of the title, on what the models are trained on."""
    return f"{table['title'].partition('. ')[0].removesuffix('.')}."


def short(results: Results) -> str:
    """Shipped models beside XGBoost and chance, on held-out tasks and on whole networks."""
    found = _tables(results)
    if not found:
        return not_measured("python -m benchmarks.cost_models")
    return "\n\n".join(_short(table) for result, table in found if not result.manifest["reconstructed"])


def _short(table: Mapping[str, Any]) -> str:
    """One comparison, of the shipped models, XGBoost and chance alone."""
    heads = ["model", "held-out tasks: Spearman", "top-1"]
    tested = _data(table["by_task"])
    if networks := table.get("by_network"):
        heads += ["three networks: Spearman", "top-1"]
        tested += f", and {_data(networks)} of `{table['test_dataset']}`"
    rows = []
    for name in (*table["checkpoints"], "xgb", "random"):
        row = [MODELS.get(name, name), *cells(table["by_task"]["models"][name], "spearman", "top_1")]
        if networks:
            of = networks["models"][name]
            row += [*cells(of, "spearman"), *cells(of["networks"][ALL], "top_1")]
        rows.append(row)
    note = "Top-1: speed of the first choice against the best program of its task."
    return markdown(heads, rows, f"{tested}. {_training(table)} {note}")


def by_task(results: Results) -> str:
    """Contestants on held-out tasks."""
    keys = ("spearman", "pairwise_accuracy", "top_1", "top_5", "r2", "latency_r2")
    heads = ["model", "Spearman", "pairs", "top-1", "top-5", "R2", "R2 of latencies"]
    return "\n\n".join(
        markdown(
            heads,
            [[name, *cells(of, *keys)] for name, of in models_of(table["by_task"])],
            f"{_data(table['by_task'])}; {result.date}. {table['title']} R2 is of scores; R2 of latencies is "
            "over all tasks and of their logarithms.",
        )
        for result, table in _tables(results)
    ) or not_measured("python -m benchmarks.cost_models")


def by_network(results: Results) -> str:
    """Contestants on the tasks of whole networks."""
    heads = ["model", "Spearman", "pairs", "top-1, mean of ratios", "top-5"]
    heads += ["top-1, ratio of sums", "top-5"]
    return "\n\n".join(
        markdown(
            heads,
            [
                [
                    name,
                    *cells(of, "spearman", "pairwise_accuracy"),
                    *cells(of["networks"][ALL], "top_1", "top_5", "top_1_sums", "top_5_sums"),
                ]
                for name, of in models_of(table["by_network"])
            ],
            f"{_data(table['by_network'])} of `{table['test_dataset']}`, ResNet-18, MobileNetV2 and "
            f"BERT-base as exported; top-k weighted by calls; {result.date}. {_training(table)}",
        )
        for result, table in _tables(results)
        if "by_network" in table
    ) or not_measured("python -m benchmarks.cost_models")


_ON_BOTH = (
    *("Spearman", "pairs", "top-1", "top-5", "R2 of latencies"),
    *("networks: Spearman", "R2 of latencies", "top-1"),
)


def _on_both(table: Mapping[str, Any], name: str) -> list[str]:
    """Cells of a model on held-out tasks, then on networks, under `_ON_BOTH`."""
    of, whole = (table[part]["models"][name] for part in ("by_task", "by_network"))
    return [
        *cells(of, "spearman", "pairwise_accuracy", "top_1", "top_5", "latency_r2"),
        *cells(whole, "spearman", "latency_r2"),
        *cells(whole["networks"][ALL], "top_1"),
    ]


def _on_both_note(table: Mapping[str, Any]) -> str:
    tasks, networks = (_data(table[part]) for part in ("by_task", "by_network"))
    return f"{tasks}, and {networks} of networks. {_training(table)}"


def trained_on_gpus(results: Results) -> str:
    """Architectures that were trained on a GPU, by the target that they are fitted to."""
    rows, note, found = [], "", []
    for variant, target in GPU_TRAINED.items():
        for result in results.of("cost_models", variant):
            found.append(result)
            (table,) = result.values["tables"]
            note = _on_both_note(table)
            for name in in_order(table["by_task"]["models"]):
                of = table["by_task"]["models"][name]
                if "seconds" not in of:
                    continue
                seconds = "-" if of["seconds"] is None else f"{of['seconds']:.0f} s"
                device = result.values.get("trained_on", NOT_RECORDED)
                about = [MODELS.get(name, name), device, target, str(of["epochs"]), seconds]
                rows.append([*about, *_on_both(table, name)])
    if not rows:
        return not_measured("python benchmarks/gpu_campaign.py next --stage models")
    tested = joined(list(dict.fromkeys(_tested_on(result) for result in found)))
    note = (
        f"In 16-bit floats. Trained on: the GPU that the result names; older results name none. Tested on: "
        f"{tested}. Those that are timed were trained side by side. {note}"
    )
    heads = ["model", "trained on", "fitted to", "epochs", "trained in", *_ON_BOTH]
    return markdown(heads, rows, note)


NOT_RECORDED = "not recorded"


def _tested_on(result: Result) -> str:
    """Machine of a manifest, with its build of PyTorch."""
    return f"{result.machine} (torch {result.manifest['versions'].get('torch', 'not recorded')})"


def counts(results: Results) -> str:
    """Models of latencies with and without counts of programs."""
    rows, note = [], ""
    for result in results.of("cost_models", COUNTS):
        (table,) = result.values["tables"]
        note = _on_both_note(table)
        names = {"trees", "trees_uncounted"} & set(table["by_task"]["models"])
        rows += [[MODELS[name], *_on_both(table, name)] for name in in_order(names)]
    if not rows:
        return not_measured(
            "python -m benchmarks.cost_models --tables cpu --models trees trees_uncounted xgb random "
            f"--variant {COUNTS} -- ++train.target.name=efficiency"
        )
    return markdown(["model", *_ON_BOTH], rows, f"Fitted to efficiencies. {note}")


def curve(results: Results) -> str:
    """Accuracy by the number of training tasks and of records a task."""
    found = [one for one in results.of("cost_models") if one.values.get("curve")]
    if not found:
        return not_measured("python -m benchmarks.cost_models --curve-models trees")
    rows = [
        [
            MODELS.get(point["name"], point["name"]),
            f"{point['size']:,} {'tasks' if point['axis'] == 'tasks' else 'records a task'}",
            *cells(point, "spearman", "pairwise_accuracy", "top_1"),
        ]
        for point in found[0].values["curve"]
    ]
    note = f"Trained on parts of `data/cpu`, tested on its {_data(found[0].values['tables'][0]['by_task'])}."
    return markdown(["model", "trained on", "Spearman", "pairs", "top-1"], rows, note)


def added_records(results: Results) -> str:
    """Models trained with more records, and those before them."""
    rows = []
    for result in results.of("added_records"):
        for one in result.values["comparisons"]:
            for name, of in one["models"].items():
                rows.append(
                    [
                        *(f"`{one['added']}`", f"{one['tasks']} {one['tested_on']}", f"`{name}`"),
                        *(
                            " -> ".join(cells(of[when], key)[0] for when in ("before", "after"))
                            for key in ("spearman", "top_1", "top_5", "r2")
                        ),
                    ]
                )
    heads = ["records added", "tested on", "model", "Spearman", "top-1", "top-5", "R2"]
    return markdown(heads, rows, "Before -> after. In the order in which the records were added.")


def transfer(results: Results) -> str:
    """Few-shot transfer to new devices."""
    rows = []
    for result in results.of("transfer"):
        if _unadapted(result):
            continue
        for device, target in result.values["targets"].items():
            name = target["name"].removesuffix(f" ({device})")
            found = {(row["kind"], row["k"]): row for row in target["summary"]}
            columns: Sequence[tuple[str, int | None]] = (
                *(("none", None), ("fasor", 10), ("k_means", 10), ("random", 10)),
                *(("full_finetuned", None), ("full", None)),
            )
            rows.append(
                [
                    f"{name} ({target['pool_tasks']} tasks to choose from)",
                    _source(result, target),
                    *(
                        ", ".join(cells(found[key], "spearman", "r2")) if key in found else "-"
                        for key in columns
                    ),
                ]
            )
    heads = ["new target", "source, seeds", "no transfer", "10 tasks by Fasor", "10 by k-means"]
    heads += ["10 at random", "fine-tuned on all the others", "from scratch on all the others"]
    note = (
        "Spearman, R2 on a third of the target's tasks, whose shapes the source has not. A checkpoint is "
        "that which was shipped on the day; from scratch is a model of the kind that is trained elsewhere."
    )
    return markdown(heads, rows, note)


def _source(result: Result, target: Mapping[str, Any]) -> str:
    """What a target was transferred from, and the number of seeds."""
    settings = result.values["settings"]
    kind = next((word for word in settings["train"] if word.startswith("model=")), "model=mlp")
    if settings.get("source"):
        source = f"`{settings['source'][0]}`"
    else:
        count = len(target.get("source_devices", ()))
        devices = "another device" if count == 1 else f"{count} other devices"
        source = f"{kind.removeprefix('model=')} of {devices}"
    return f"{source}, {max((row.get('seeds', 1) for row in target['summary']), default=0)}"


def hardware_features(results: Results) -> str:
    """Models of devices that they have not seen, with hardware features and without."""
    pairs: dict[str, dict[bool, Mapping[str, Any]]] = {}
    for result in filter(_unadapted, results.of("transfer")):
        settings = result.values["settings"]
        train = [word for word in settings["train"] if word != WITHOUT_HARDWARE]
        key = f"{settings['data_sha256']} {train}"
        without = WITHOUT_HARDWARE in settings["train"]
        pairs.setdefault(key, {})[without] = result.values["targets"]
    rows = []
    for pair in pairs.values():
        if len(pair) < 2:
            continue
        for device, target in pair[False].items():
            both = [of[device]["summary"][0] for of in (pair[False], pair[True])]
            rows.append(
                [
                    target["name"],
                    f"{target['test_tasks']:,}",
                    *(f"{target[name]:,}" for name in ("test_records", "source_records")),
                    *(cells(one, key)[0] for key in ("spearman", "top_1", "r2") for one in both),
                ]
            )
    if not rows:
        return not_measured("python -m benchmarks.transfer")
    heads = ["new device", "tasks", "records", "trained on"]
    heads += [f"{name}, {how}" for name in ("Spearman", "top-1", "R2") for how in ("with", "without")]
    note = (
        "Trees of the log score, trained on all other CPUs of `data/`, on tasks whose shapes those have not."
    )
    return markdown(heads, rows, note)


WITHOUT_HARDWARE = "data.without=[hardware]"
"""Override of a training without hardware features."""


def _unadapted(result: Result) -> bool:
    """Whether a result of `transfer` has source models alone, none that saw the new device."""
    targets = result.values["targets"].values()
    return all(row["kind"] == "none" for target in targets for row in target["summary"])
