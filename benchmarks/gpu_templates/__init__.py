"""Hardware-native templates on a GPU, beside PyTorch's library calls (Bolt, Figures 1 and 8, Tables 1 and 2).

    python -m benchmarks.gpu_templates                   # on a machine with an NVIDIA GPU
    python -m benchmarks.gpu_templates --compile-only    # anywhere: what the profiler keeps and rejects

Products and convolutions in float16, and what BERT-base computes for one text in bfloat16. The most promising
templates of each are compiled, those that spill are rejected, and the others are timed. Of the problems after
`--exhaustive`, all templates are timed: the closed form's choice stands beside the fastest. Two products back
to back are timed in one kernel and in two. Then BERT-base is tuned in bfloat16 with the templates, and timed
beside PyTorch (`benchmarks.rivals`). Without a GPU, `--compile-only` goes through the same problems, and
through the network: which of its calls templates compute, and what these use. It needs Triton:
pip install 'foretune[triton]'.
"""
