"""Records of a GPU: their number, their contents, and their rate.

    python -m benchmarks.gpu_records --part ebs --dataset data/gpu-ebs --minutes 9 -- target=cuda

Each part is a separate dataset that `foretune generate` creates; the same command extends it. Words after a
`--` override its settings.

- `ebs`: float32 tasks from the prior, programs on the trajectory of a search (One-Shot Tuner: PGS and EBS)
- `tensor`: the same in float16 and bfloat16, with tensor cores
- `random`: tasks like those in `ebs`, random programs, for the comparison in One-Shot Tuner's Table 4
- `held-out`: test tasks from whole networks, at least 64 programs each
"""
