"""Samplers of tasks and of programs by the networks that they tune: Table 4 of One-Shot Tuner.

    python -m benchmarks.one_shot_tuner --size 40 --minutes 40
    python -m benchmarks.one_shot_tuner --size 160 --networks resnet18 mobilenetv2 --minutes 600

Tasks are drawn from the prior (PGS), at random or from the zoo, programs on the trajectory of a search (EBS)
or at random. Each of the six pairs measures a dataset of its own on this machine, of as many tasks and
programs as the others. A Transformer is trained on each with the same settings, ranks the programs of
`data/networks`, and tunes the networks with One-Shot Tuner's search, which measures a few programs a task.
The tuned networks are timed side by side. No sampled task has a shape of these networks.

The datasets are `data/samplers-*`. They grow in turns, so that an hour of the machine is none's own, and the
same command goes on with them. A larger `--size` makes the same datasets larger. Models and runs are below
`--runs-in`.
"""
