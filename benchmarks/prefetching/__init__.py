"""Templates with and without prefetches of their weights, on layers of BERT and ResNet.

    python -m benchmarks.prefetching

A network's weights are not in a core's caches when their layer begins. The runs of a layer therefore
alternate between copies of its weights, enough of them that the last cache does not keep them near a core.
The same layer with resident weights is timed for comparison. Runs with and without prefetches take turns. The
benchmark needs a minute for each data type.
"""
