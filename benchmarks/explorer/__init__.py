"""Search by Fasor's deep Q-network beside random and evolutionary search. Nothing is timed.

    python -m benchmarks.explorer --tasks 40

Every search rates the same number of programs of a task, and begins with the same random ones. The explorer
has not been taught any of the tasks: `test` are those that its environment has not been trained on either,
`unseen_operators` those of the operators that it was tested on.

- `random`: programs drawn at random.
- `evolutionary`: the evolution of the strategy `draft`, in four generations.
- `random_moves`: the search of the network with random moves: what moving on from the best alone brings.
- `dqn, <mode>`: moves of the network, by the values of each mode.

`score` is the best predicted score by the environment, by which all of them search. `judged` is the score
that the store-level cost model gives the program that each would take; it has not guided any of them.

`recorded` replays measured latencies. A walk is confined to the recorded programs of a task: each move leads
to the nearest recorded program that it has not taken. It is worth the fastest recorded latency of the task
over the fastest of the `--recorded` programs that it takes.
"""
