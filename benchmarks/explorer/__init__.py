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
