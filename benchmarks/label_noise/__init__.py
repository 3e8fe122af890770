"""Label noise: how far the records of a dataset are from a second measurement on the same device.

    python -m benchmarks.label_noise --dataset data/mine --tasks 20

All records of some tasks are measured again, so that the first measurement can also be taken for a prediction
of the second: beyond its metrics a cost model cannot be told from a perfect one on such records.
The device must be the one that measured them: records of others are left out, and so are those that were cut
short, since these are single runs, and those of the last hour. How long ago the first measurement was is told
with the result, and both latencies of each record with whether neither was marked as disturbed.
`foretune dataset datasheet --label-noise` keeps the result with the dataset.
"""
