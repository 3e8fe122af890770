"""How good is Fasor's deep Q-network at searching, beside random and evolutionary search? Nothing is timed.

    python -m benchmarks.explorer --tasks 40

Every search rates the same number of programs of a task. The tasks are those that neither the explorer nor its
environment has seen: test tasks of the environment, and tasks of operators that the explorer was not taught.

- `random`: programs drawn at random.
- `evolutionary`: the evolution of the strategy `draft`, in four generations.
- `random_moves`: walks like those of the network, but with random moves: what the walks alone bring.
- `dqn, <mode>`: walks of the network, by the values of each mode.

`score` is the best predicted score by the environment, by which all of them search. `judged` is the score that
the store-level cost model gives the program that each would take; it has not guided any of them. `recorded`
replays measured latencies: a search is confined to the recorded programs of a task (each program that it makes
becomes the nearest recorded one that it has not taken), and is worth the fastest recorded latency over the
fastest of the `--recorded` programs that it takes.
"""
