"""Search by Fasor's deep Q-network compared with random and evolutionary search. Nothing is timed.

    python -m benchmarks.explorer --tasks 40

Every search rates the same number of programs of a task, and begins with the same random ones. The explorer
was not trained on any of the tasks. The part `test` has tasks that its environment was not trained on either;
`unseen_operators` has tasks of the operators that the environment was tested on.

- `random`: programs drawn at random.
- `evolutionary`: the evolution of the strategy `draft`, in four generations.
- `random_moves`: the network's search with random moves, which shows the gain of moving on from the best
  alone.
- `dqn, <mode>`: the network's moves, by the values of each mode.

`score` is the best score predicted by the environment, which guides all searches. `judged` is the score that
the store-level cost model gives each search's final program; it has not guided any search.

`recorded` replays measured latencies. A walk is confined to the recorded programs of a task: each move leads
to the nearest recorded program that it has not visited. Its value is the fastest recorded latency of the task
over the fastest of the `--recorded` programs that it visits.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from foretune.compiler.replay import replay
from foretune.compiler.tvm_compat import make_tune_context, parse_target
from foretune.dataset.features.recorded_spaces import RecordedSpace
from foretune.dataset.records.schema import TaskRow
from foretune.dataset.records.stored_tasks import stored_rows, stored_task
from foretune.inference.search.cost_model import PretrainedCostModel
from foretune.inference.strategies.draft.population import Population
from foretune.models.architectures.explorer import MODES, Explorer
from foretune.models.checkpoints.checkpoint import load_explorer
from foretune.training.exploration.config import JudgingConfig, ReinforceConfig
from foretune.training.exploration.environment import Environment, TaskSpace
from foretune.training.exploration.policy import ranked
from foretune.training.exploration.tasks import load_tasks, task_space
from foretune.training.exploration.walks import Visited, explore

from .common import argument_parser, start, this_machine, write_result

GENERATIONS = 4
MUTATION = 0.7
"""Share of children that evolution mutates, as in the strategy `draft`."""


class Searches:
    """Searches of one sketch, from the same random programs."""

    def __init__(
        self,
        environment: Environment,
        explorer: Explorer,
        space: TaskSpace,
        candidates: int,
        seed: tuple[int, ...],
    ) -> None:
        self._environment = environment
        self._explorer = explorer
        self._space = space
        self._candidates = candidates
        self._seed = seed

    def all(self) -> dict[str, Visited]:
        """Programs that each search rates, by the name of the search."""
        return {
            "random": self.random(),
            "evolutionary": self.evolutionary(),
            "random_moves": self.walks(MODES[0], epsilon=1.0),
            **{f"dqn, {mode}": self.walks(mode) for mode in MODES},
        }

    def random(self) -> Visited:
        """Programs drawn at random."""
        drawn = self._drawn(self._candidates)
        return Visited(drawn, self._environment.observe([self._space], [drawn]).time)

    def evolutionary(self) -> Visited:
        """Evolution by the environment: a generation is a quarter of the programs."""
        space = self._space.space

        def rate(values: np.ndarray) -> np.ndarray:
            rated: np.ndarray = -self._environment.observe([self._space], [space.choices(values)]).time
            return rated

        population, rng = Population(space, rate), np.random.default_rng(self._seed)
        share = -(-self._candidates // GENERATIONS)
        population.add(self._drawn(share))
        while (left := self._candidates - len(population.scores)) > 0:
            children = population.children(min(share, left), MUTATION, rng)
            if not len(children):
                break
            population.add(children)
        return Visited(population.choices, -population.scores.astype(np.float64))

    def walks(self, mode: str, epsilon: float = 0.0) -> Visited:
        """Walks of the network; with `epsilon` 1 their moves are random."""
        config = JudgingConfig(candidates=self._candidates)
        return explore(
            self._environment,
            self._space,
            self._explorer,
            self._drawn(config.draws),
            count=self._candidates,
            walks=config.walks,
            mode=mode,
            epsilon=epsilon,
            rng=np.random.default_rng(self._seed),
        )

    def _drawn(self, count: int) -> np.ndarray:
        rng = np.random.default_rng(self._seed)
        drawn: np.ndarray = self._space.space.unique(self._space.draw(4 * self._candidates, rng))[:count]
        return drawn


LEAST = 24
"""Minimum number of recorded programs of a sketch, so that a search has a choice."""


def recorded_scores(
    one: RecordedSpace, environment: Environment, explorer: Explorer, count: int, seed: tuple[int, ...]
) -> dict[str, float] | None:
    """Fastest recorded latency over the fastest of `count` visits, by search; None with too few records."""
    ran = np.isfinite(one.latencies_s)
    programs, first = np.unique(one.programs[ran], axis=0, return_index=True)
    latencies_s = one.latencies_s[ran][first]
    if len(programs) < LEAST:
        return None
    pool = _Pool(one, programs, environment, explorer)
    best = latencies_s.min()
    taken = {
        "random": np.random.default_rng(seed).permutation(len(programs))[:count],
        "random_moves": pool.walk(count, MODES[0], 1.0, seed),
        **{f"dqn, {mode}": pool.walk(count, mode, 0.0, seed) for mode in MODES},
    }
    return {name: float(best / latencies_s[rows].min()) for name, rows in taken.items()}


class _Pool:
    """Recorded programs of a sketch, among which the moves of a walk lead."""

    def __init__(
        self, one: RecordedSpace, programs: np.ndarray, environment: Environment, explorer: Explorer
    ) -> None:
        self._space = task_space(one)
        self._programs = programs
        self._environment = environment
        self._explorer = explorer
        self._logs = self._log(programs)

    def walk(self, count: int, mode: str, epsilon: float, seed: tuple[int, ...]) -> list[int]:
        """Recorded programs of one walk from a random start; each move leads to the nearest unvisited one."""
        rng = np.random.default_rng(seed)
        taken = [int(rng.integers(len(self._programs)))]
        while len(taken) < count:
            here = self._programs[taken[-1:]]
            seen = self._environment.observe([self._space], [here])
            values = self._explorer.values(seen.states(len(taken) / count))[:, MODES.index(mode)]
            (order,) = ranked(values, seen.legal, epsilon, rng)
            moved = self._space.move(here, order[:1])
            apart = np.abs(self._logs - self._log(moved)).sum(axis=1)
            apart[taken] = np.inf
            taken.append(int(np.argmin(apart)))
        return taken

    def _log(self, programs: np.ndarray) -> np.ndarray:
        """Decisions on the scale of a step: logarithms of tile factors, positions of other values."""
        sketch, values = self._space.space.sketch, self._space.space.values(programs)
        logs: np.ndarray = values.astype(float)
        for decision in sketch.decisions:
            if decision.kind == "tile":
                columns = slice(decision.column, decision.column + decision.width)
                logs[:, columns] = np.log2(values[:, columns])
        return logs


PARTS = ("test", "unseen_operators")
DATASETS = ("cpu", "cpu-zen3", "cpu-zen5")


def main() -> None:
    parser = argument_parser(__name__)
    parser.add_argument("--data", type=Path, default=Path("data"), help="(%(default)s)")
    parser.add_argument("--explorer", default="cpu-explorer", help="(%(default)s)")
    parser.add_argument("--environment", default="cpu-draft", help="(%(default)s)")
    parser.add_argument("--judge", default="cpu", help="store-level cost model (%(default)s)")
    parser.add_argument("--tasks", type=int, default=40, help="sketches of each part (%(default)s)")
    parser.add_argument("--candidates", type=int, default=64, help="programs rated (%(default)s)")
    parser.add_argument("--recorded", type=int, default=12, help="recorded programs taken (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    begun = start()
    result = compared([given.data / name for name in DATASETS], given)
    write_result(
        "explorer",
        result,
        begun,
        this_machine(),
        notes="Predicted by cost models, and replayed from the records in data/; nothing was timed.",
        results=given.out,
    )
    for part, rows in result["means"].items():
        print(part, rows)


def compared(folders: Sequence[Path], given: argparse.Namespace) -> dict[str, Any]:
    """Rows of the held-out sketches, and their means by part and method."""
    environment, judge_of = Environment.load(given.environment)
    explorer, card = load_explorer(given.explorer)
    config = ReinforceConfig(
        dataset=list(folders),
        run_dir=Path("unused"),
        checkpoint_dir=Path("unused"),
        tasks=1,
        test_operators=card.split.config["test_operators"],
        judging=JudgingConfig(spaces=given.tasks),
        seed=given.seed,
    )
    tasks = load_tasks(config, judge_of.card.split)
    taught = {*card.split.train_tasks, *card.split.validation_tasks}
    rows = {row.workload_hash: row for folder in folders for row in stored_rows(folder)}
    found: list[dict[str, Any]] = []
    for part in PARTS:
        spaces = [one for one in tasks.part(part) if one.workload_hash not in taught]
        order = np.random.default_rng(given.seed).permutation(len(spaces))[: given.tasks]
        for number in order:
            one = spaces[int(number)]
            searches = Searches(
                environment, explorer, task_space(one), given.candidates, (given.seed, int(number))
            )
            row = {"part": part, "workload_hash": one.workload_hash, "operator": one.operator}
            row |= scores(one, searches, rows[one.workload_hash], given.judge)
            row["recorded"] = recorded_scores(
                one, environment, explorer, given.recorded, (given.seed, int(number))
            )
            found.append(row)
            print({key: row[key] for key in ("part", "operator", "score")}, flush=True)
    return {
        **{name: getattr(given, name) for name in ("environment", "judge", "candidates", "recorded")},
        "explorer_weights_sha256": card.weights_sha256,
        "means": means(found),
        "tasks": found,
    }


def scores(one: RecordedSpace, searches: Searches, row: TaskRow, judge: str) -> dict[str, Any]:
    """Best predicted score of each search, and the judge's score of its program, None if it is invalid."""
    visited = searches.all()
    traces = [one.space.traces(of.best(1))[0] for of in visited.values()]
    task = stored_task(row)
    target = parse_target({"kind": "llvm", "num-cores": one.hardware.cores})
    context = make_tune_context(task.mod, target, seed=0, name=task.name, threads=1)
    candidates = [replay(context, trace) for trace in traces]
    valid = [candidate for candidate in candidates if candidate is not None]
    predicted: list[float] = []
    if valid:  # TVM's binding fails for an empty list
        predicted = PretrainedCostModel.load(judge, one.hardware).predict(context, valid).tolist()
    judged = iter(predicted)
    return {
        "score": {method: float(np.exp(-of.time.min())) for method, of in visited.items()},
        "judged": {
            method: None if candidate is None else next(judged)
            for method, candidate in zip(visited, candidates, strict=True)
        },
    }


def means(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over the sketches of each part, by measure and method, if all searches have a value."""
    result: dict[str, Any] = {}
    for part in PARTS:
        of_part = [row for row in rows if row["part"] == part]
        result[part] = {"sketches": len(of_part)}
        for measure in ("score", "judged", "recorded"):
            kept = [row[measure] for row in of_part if row[measure] and None not in row[measure].values()]
            result[part][measure] = {"sketches": len(kept)} | {
                method: float(np.mean([row[method] for row in kept])) for method in (kept[0] if kept else ())
            }
    return result


if __name__ == "__main__":
    main()
