"""Primitives that change the memory and core scores, and the loss in the sub-space of the top ones.

    python -m benchmarks.sub_space --dataset data/cpu      # pairs of one dataset; its rows are kept
    python -m benchmarks.sub_space --summarise             # weights, over all kept rows
    python -m benchmarks.sub_space --judge data/cpu        # the result, on held-out tasks

Four fifths of the tasks, by their shapes, determine the weights of Fasor's section 5 (2). Two programs of a
task that differ in only one primitive form a pair. The sensitivity of a score to the primitive is the mean
difference of its logarithm, base 2, over the pairs. The weights go to
`inference/spaces/primitive_weights.json`.

The other tasks judge the sub-space, by n_p: its reduction in size, the share of the measured programs in it,
and the best latency of the task over the best of the programs in it. The same number of randomly drawn
programs of the task serves as the baseline.
"""
