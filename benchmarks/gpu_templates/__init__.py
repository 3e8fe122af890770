"""Hardware-native templates on a GPU against PyTorch's library calls (Bolt, Figures 1 and 8, Tables 1 and 2).

    python -m benchmarks.gpu_templates                   # on a machine with an NVIDIA GPU
    python -m benchmarks.gpu_templates --compile-only    # anywhere: kept and rejected templates

The problems are products and convolutions in float16, and the operators of BERT-base for one text in
bfloat16. The most promising templates of each are compiled, templates that spill are rejected, and the others
are timed. For the problems after `--exhaustive`, all templates are timed, which compares the closed form's
choice with the fastest. Two products back to back are timed in one kernel and in two. Then BERT-base is tuned
in bfloat16 with the templates, and compared with PyTorch (`benchmarks.rivals`). Without a GPU,
`--compile-only` goes through the same problems and the network: it lists the calls that templates compute,
and their resources. It needs Triton: pip install 'foretune[triton]'.
"""
