"""Do the cost functions of ETO's section 5.1 order programs as a GPU's clock does?

    python -m benchmarks.gpu_costs

Pairs of programs of one task that were measured on a GPU (`data/gpu`, `data/gpu-networks`) and differ by 5 %
or more: how often the faster has the lower cost of BShape or TShape. ETO compares BShapes with as many
blocks, and TShapes with as many threads besides. Nothing is measured here.
"""
