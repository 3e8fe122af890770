r"""Do the ranges that a parent's program sets (ETO, section 3) hold fast programs of a child, and prune?

    python -m benchmarks.reuse_ranges --dataset data/cpu      # one dataset; its rows are kept
    python -m benchmarks.reuse_ranges --summarise             # the result, over all kept rows
    python -m benchmarks.reuse_ranges --variant gpu --dataset data/gpu --least 6 && \
        python -m benchmarks.reuse_ranges --variant gpu --summarise

A pair counts if ETO would reuse it: both tasks have the operator type and the sketch, one device measured
them, and the parent's fastest program is of this sketch. A feature's range holds a fast program if one of the
child's measured programs inside is within 90 % of its best. The result also contains

- the share of the child's programs that the range keeps: a range that keeps everything prunes nothing;
- the chance that the same number of random programs holds a fast one;
- ranges of the same width at random positions between the child's least and largest value.

On a GPU the features are the paper's own: thread blocks, threads, and shared memory of all blocks.
"""
