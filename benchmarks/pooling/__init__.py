"""Benchmark of averages of channels in depthwise convolutions."""
