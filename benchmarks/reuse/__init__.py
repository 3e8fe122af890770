"""Reuse of programs between tasks: what it saves, and what it costs.

    python -m benchmarks.reuse --part networks
    python -m benchmarks.reuse --part networks --networks resnet18 --runs 3 --minutes 60
    python -m benchmarks.reuse --part shapes
    python -m benchmarks.reuse --part pairs --types C2D DEP --pairs 8
    python -m benchmarks.reuse --part pairs --extend --minutes 30
    python -m benchmarks.reuse --part plans
    python -m benchmarks.reuse --part sets --sets dcgan bert_base --trials 64

`networks` tunes whole networks by `foretune tune` with `search.reuse=auto` and `off`, and with a control that
measures as few programs and takes none over, in turns; the tuned networks are timed side by side. `shapes`
tunes a second batch size or sequence length behind the first, with one database. `pairs` are Figures 7 and 8
of ETO, `sets` are Figures 9 to 11: both time the fastest programs in turns. `plans` measures nothing: it
counts what ETO estimates for these sets. A result names what there was no
time for. Runs are kept in `outputs/benchmarks/reuse` until the commit changes, or beyond it with `--keep`: a
benchmark that was stopped, or that ran out of time, goes on where it was. `--extend` goes on from the
committed result of this machine. Pairs and sets have a backend of 64 trials, where the paper has 1,000,
which `--trials` changes.
"""
