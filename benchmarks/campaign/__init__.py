"""A campaign of measurements on a CUDA machine that is lent for minutes and reaches no package index.

`python benchmarks/gpu_campaign.py` is its command.
"""
