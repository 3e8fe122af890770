"""Fasor's search compared with the default one, after Tables 4 to 7 and Figure 8 of the paper.

    python -m benchmarks.fasor --networks resnet18 mobilenetv2 bert_base
    python -m benchmarks.fasor --searches default pretuned --runs 3 --extend

Each network is tuned by each search in turns, from an empty database, and the tuned networks are timed side
by side. `stock` is MetaSchedule's own search with 64 programs per task, which takes 5 to 25 minutes per
network. Fasor's high-efficiency mode measures nothing. `without_pretuned`, `random` and `evolutionary` are
this mode with one part exchanged (Figure 8); `pretuned`, `sub_space_6` and `dqn` are parts of Fasor inside
the default search. Runs are kept in `outputs/benchmarks/fasor` until the commit changes, or beyond it with
`--keep`. `--extend` continues from the committed result of this machine.
"""
