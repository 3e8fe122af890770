"""Templates with and without prefetches of their weights, on layers of BERT and ResNet.

    python -m benchmarks.prefetching

A network's weights are not in a core's caches when their layer begins: the runs of a layer take as many
copies of its weights in turn as the last cache does not keep near a core. Beside it stands the same with
weights that stay. Runs with and without prefetches take turns. A minute for each data type.
"""
