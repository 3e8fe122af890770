"""RepVGG with other activations and with 1x1 convolutions, after Bolt section 4.3 (Tables 4 to 6).

    python -m benchmarks.repvgg
    python -m benchmarks.repvgg --forms A0-relu A0-gelu

The study covers latency at batch 1 only, without training. Each form of the network is tuned and exported,
and all are timed side by side. They share one database, so that layers in several forms run the same
programs. Runs, libraries and database are kept in `outputs/benchmarks/repvgg` until the commit changes, so a
stopped study resumes.
"""
