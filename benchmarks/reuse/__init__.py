"""Reuse of programs between tasks: its savings and its costs.

    python -m benchmarks.reuse --part networks
    python -m benchmarks.reuse --part networks --networks resnet18 --runs 3 --minutes 60
    python -m benchmarks.reuse --part shapes
    python -m benchmarks.reuse --part pairs --types C2D DEP --pairs 8
    python -m benchmarks.reuse --part pairs --extend --minutes 30
    python -m benchmarks.reuse --part plans
    python -m benchmarks.reuse --part sets --sets dcgan bert_base --trials 64

`networks` tunes whole networks by `foretune tune` in turns with `search.reuse=auto`, with `off`, and with a
control that measures equally few programs without reusing any; the tuned networks are timed side by side.
`shapes` tunes a second batch size or sequence length after the first, with one database. `pairs` are Figures
7 and 8 of ETO, `sets` are Figures 9 to 11: both time the fastest programs in turns. `plans` measures nothing:
it counts ETO's estimates for these sets. A result names the parts that did not fit into the time. Runs are
kept in `outputs/benchmarks/reuse` until the commit changes, or beyond it with `--keep`, so a benchmark that
was stopped or ran out of time resumes. `--extend` continues from the committed result of this machine. Pairs
and sets have a backend of 64 trials, which `--trials` changes; the paper uses 1,000.
"""
