"""Hardware-native templates on a GPU, beside PyTorch's library calls (Bolt, Figures 1 and 8, Tables 1 and 2).

    python -m benchmarks.gpu_templates                   # on a machine with an NVIDIA GPU
    python -m benchmarks.gpu_templates --compile-only    # anywhere: what the profiler keeps and rejects

Products and convolutions in float16. The most promising templates of each are compiled, those that spill are
rejected, and the others are timed. Two products back to back are timed in one kernel and in two. It needs
Triton: pip install 'foretune[triton]'.
"""
