"""Label noise: the difference between a dataset's records and a second measurement on the same device.

    python -m benchmarks.label_noise --dataset data/mine --tasks 20

All records of some tasks are measured again, so that the first measurement can serve as a prediction of the
second. Its metrics are a ceiling: a cost model beyond them cannot be distinguished from a perfect one on such
records. The device must be the one that measured the records: records of other devices are left out, and so
are records that were cut short, since these are single runs, and records of the last hour. The result
contains the age of the first measurement, and both latencies of each record with whether neither was marked
as disturbed. `foretune dataset datasheet --label-noise` stores the result with the dataset.
"""
