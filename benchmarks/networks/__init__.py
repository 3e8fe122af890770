"""Whole networks tuned by `foretune tune`, each run with an empty database.

    python -m benchmarks.networks --set headline
    python -m benchmarks.networks --set unseen --runs 2 --minutes 120
    python -m benchmarks.networks --networks resnet18 --runs 5 -- search=high_quality
    python -m benchmarks.networks --set headline --against ../before

Networks take turns, so that a slow hour of the machine affects all of them. Runs are kept in
`outputs/benchmarks/networks` until the commit changes, so a stopped benchmark resumes. With `--against`, this
checkout and another one take turns on each network, and the networks they tuned are timed side by side.
"""
