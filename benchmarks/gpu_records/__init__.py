"""Records of a GPU: how many, of what, and at which rate.

    python -m benchmarks.gpu_records --part ebs --dataset data/gpu-ebs --minutes 9 -- target=cuda

Each part is a dataset of its own that `foretune generate` makes; the same command goes on with it. Words
after a `--` override its settings.

- `ebs`: float32 tasks from the prior, programs on the trajectory of a search (One-Shot Tuner: PGS and EBS)
- `tensor`: the same in float16 and bfloat16, with tensor cores
- `random`: tasks as those of `ebs`, random programs, for the comparison of One-Shot Tuner's Table 4
- `held-out`: tasks of whole networks, at least 64 programs each, to test on
"""
