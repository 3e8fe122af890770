"""Networks that several searches tuned in turns, timed side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from .declare import names
from .reading import MACHINES, Result


def ratios(result: Result, base: str, searches: Sequence[str] = (), part: str = "networks") -> pd.DataFrame:
    """Ratios to the search `base`, a row a network, run and search, of runs of `benchmarks.networks.contest`.

    `searches` are the searches to show, by default all. `all_programs` are all measured programs of a search
    over those of `base`.
    """
    columns = ["network", "seed", "search", "seconds", "latency", "measured", "rival", "search_s", "rival_s"]
    frame = pd.DataFrame(list(_rows(result.values.get(part, {}), base, searches)), columns=columns)
    counts = frame.groupby("search")[["measured", "rival"]].transform("sum")
    programs = frame["measured"] / frame["rival"].where(frame["rival"] > 0)
    return frame.assign(
        programs=programs,
        all_programs=counts["measured"] / counts["rival"].where(counts["rival"] > 0),
        speed=1 / frame["latency"],
        less_time=1 / frame["seconds"],
    )


def _rows(networks: Mapping[str, Any], base: str, searches: Sequence[str]) -> Iterator[dict[str, Any]]:
    for network, of in networks.items():
        for run in of.get("runs", ()):
            timed = run["side_by_side_s"]
            for search in [
                name for name in (searches or timed) if name != base and {name, base} <= run.keys()
            ]:
                own, rival = run[search], run[base]
                yield {
                    "network": network,
                    "seed": own["seed"],
                    "search": search,
                    "seconds": own["search_s"] / rival["search_s"] if "search_s" in own else None,
                    "latency": timed[search] / timed[base],
                    "measured": own.get("measured"),
                    "rival": rival.get("measured"),
                    "search_s": own.get("search_s"),
                    "rival_s": rival.get("search_s"),
                }


def stock_networks(result: Result) -> Iterator[dict[str, Any]]:
    """MetaSchedule's networks after each number of programs a task, run by run, relative to the default."""
    for network, of in result.values["networks"].items():
        for run in of["runs"]:
            timed, default = run["side_by_side_s"], run["default"]
            for name, arm in run.items():
                if name in timed and name != "default":
                    yield {
                        **arm,
                        "network": network,
                        "own_measurement": f"{arm['own_tasks']} of {arm['tasks']}",
                        "default_measured": default["measured"],
                        "default_s": default["search_s"],
                        "less_time": arm["search_s"] / default["search_s"],
                        "speed": timed[name] / timed["default"],
                    }


def several(result: Result, pairs: Sequence[Sequence[str]], part: str = "networks") -> pd.DataFrame:
    """Ratios of several pairs of a search and its reference, `base`."""
    frames = [ratios(result, base, [search], part).assign(base=base) for search, base in pairs]
    return pd.concat([frame for frame in frames if len(frame)] or frames[:1])


def samplers(result: Result) -> Iterator[dict[str, Any]]:
    """Models of pairs of samplers, with the latency of each run over the paper's pair of samplers."""
    for pair, model in result.values["models"].items():
        tasks_from, programs_from = pair.split("_")
        for network, of in result.values["networks"].items():
            for run in of["runs"]:
                latency = run["side_by_side_s"][pair] / run["side_by_side_s"]["pgs_ebs"]
                about = {"tasks_from": tasks_from, "programs_from": programs_from, "seed": run[pair]["seed"]}
                yield {**model, **about, "network": network, "latency": latency}


def moves(result: Result) -> Iterator[dict[str, Any]]:
    """Moves to a new device, run by run, with the seconds of the source's models and the adapted ones."""
    if move := result.values["move"]:
        for row in move["seeds"]:
            yield {
                **row,
                "k": result.values["k"],
                "of": ", ".join(MACHINES.get(name, name) for name in move["source"]["machines"]),
                "records": move["source"]["records"],
                "offline_s": sum(move["source"]["seconds"].values()),
                "adapted_s": sum(row["adapt_s"][name] for name in ("plain", "plain-draft")),
            }


def starts(result: Result) -> Iterator[dict[str, Any]]:
    """Searches with pretuned starts, task by task, and the same searches without them."""
    first = result.values["first_round"]
    others = {"pretuned, without templates": "without templates"}
    for start in ("pretuned", "two pretuned", "nearly the same", "pretuned, without templates"):
        for row in result.values["tasks"]:
            mine, other = (row["runs"].get(name) for name in (start, others.get(start, "default")))
            if mine and other and mine["latencies_s"] and other["latencies_s"]:
                latency, goal = mine["latencies_s"], min(other["latencies_s"][:first])
                until = programs_until(latency, goal)
                yield {
                    "start": start,
                    "tasks": "other tasks" if result.variant else "tasks of two datasets",
                    "until": until,
                    "within": int(until <= first // 2),
                    "half": min(latency[: first // 2]) / goal,
                    "first": min(latency[:first]) / goal,
                    "end": min(latency) / min(other["latencies_s"]),
                    "time": mine["seconds"] / other["seconds"],
                }


def programs_until(latencies_s: Sequence[float], goal_s: float) -> float:
    """Number of programs until one is as fast as a goal; infinite if none is."""
    return next((n for n, latency_s in enumerate(latencies_s, 1) if latency_s <= goal_s), float("inf"))


def explored(result: Result) -> Iterator[dict[str, Any]]:
    """Searches of a sketch by measure, on unseen tasks and on unseen operators."""
    means = result.values["means"]
    measures = {
        "score": "environment's score",
        "judged": "cost model's score",
        "recorded": "recorded latencies",
    }
    for explorer in names()["explorer"]:
        for measure, title in measures.items():
            parts = {part: means[part][measure].get(explorer) for part in ("test", "unseen_operators")}
            yield {"explorer": explorer, "measure": title, **parts}


def weights(result: Result) -> Iterator[dict[str, Any]]:
    """Primitives with their pairs and the sensitivity of either score."""
    for primitive, pairs in result.values["pairs"].items():
        bounds = {bound: of[primitive] for bound, of in result.values["weights"].items()}
        yield {"primitive": primitive, "pairs": pairs, **bounds}
