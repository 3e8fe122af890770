"""Samplers of tasks and of programs, judged by tuned networks: Table 4 of One-Shot Tuner.

    python -m benchmarks.one_shot_tuner --size 40 --minutes 40
    python -m benchmarks.one_shot_tuner --size 160 --networks resnet18 mobilenetv2 --minutes 600

Tasks are drawn from the prior (PGS), at random or from the zoo, programs on the trajectory of a search (EBS)
or at random. Each of the six pairs measures its own dataset on this machine, and all datasets have the same
number of tasks and programs. A Transformer is trained on each with the same settings, ranks the programs of
`data/networks`, and tunes the networks with One-Shot Tuner's search, which measures a few programs per task.
The tuned networks are timed side by side. No sampled task has a shape of these networks.

The datasets are `data/samplers-*`. They grow in turns, so that a slow hour of the machine affects all of
them, and the same command continues with them. A larger `--size` extends the same datasets. Models and runs
are below `--runs-in`.
"""
