"""CPU seconds per GPU record, and core use of a generation run: without a GPU, by dry runs.

    python -m benchmarks.gpu_generation
    python -m benchmarks.gpu_generation --dtypes float32 -- program_sampling.sampler=random

Each data type has one run of `foretune generate executor=dry_run` for an H100: programs are sampled, lowered
and compiled as for a device, and only the timing is left out. CPU seconds cover all processes, from the start
of the command to its end. Words after a `--` are settings of foretune generate.

`busy` is the share of the cores that the run used, by the CPU time of its processes after their start. It is
low if other programs use the cores. `wanted` is the share that the run would have used on an idle machine:
its runnable processes, at most one per core, counted five times a second.
"""
