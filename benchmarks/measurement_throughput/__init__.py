"""Candidates a second: foretune's worker pool against MetaSchedule's LocalBuilder and LocalRunner.

    python -m benchmarks.measurement_throughput

Both measure the same random candidates of the same tasks in one run, one after the other; who goes first
alternates. The tasks are a convolution of ResNet-18, one of MobileNet's, a linear layer of BERT-base and a
product of its attention.
"""
