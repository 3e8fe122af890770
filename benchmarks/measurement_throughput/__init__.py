"""Candidates per second: foretune's worker pool against MetaSchedule's LocalBuilder and LocalRunner.

    python -m benchmarks.measurement_throughput

Both measure the same random candidates of the same tasks sequentially in one run, in alternating order. The
tasks are a convolution of ResNet-18, one of MobileNet's, a linear layer of BERT-base and a product of its
attention.
"""
