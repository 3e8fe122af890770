"""FamilySeer's Algorithm 1 in stock MetaSchedule, against its own scheduler and cost model, on a GPU.

    python -m benchmarks.families_stock --target cuda --networks resnet18 --trials 32

Both searches measure the same number of programs of a network's tasks, in rounds of 16. A search cannot be
continued, so `--trials` must leave it time to end. Runs are kept in `--runs-in`.
"""
