"""Do the cost functions of ETO's section 5.1 order programs as a GPU's clock does?

    python -m benchmarks.gpu_costs

The pairs are programs of one task that were measured on a GPU (`data/gpu`, `data/gpu-networks`) and differ by
5 % or more. The benchmark counts how often the faster program has the lower cost of BShape or TShape. ETO
compares BShapes with equal numbers of blocks, and TShapes also with equal numbers of threads. Nothing is
measured here.
"""
