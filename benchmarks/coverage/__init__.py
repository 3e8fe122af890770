"""Sweep over networks of public zoos: how many does `foretune tune` bring from PyTorch to checked outputs?

    python -m benchmarks.coverage
    python -m benchmarks.coverage --most 6              # so many more, then stop
    python -m benchmarks.coverage --networks hf_gpt2 --again

Each network is one `foretune tune` in a separate process, from an empty database, with a short search that
measures nothing (`search=no_measurement`) and without rivals: export, tasks, search, compilation, comparison
of outputs. Completed networks are kept in `outputs/benchmarks/coverage`, so a stopped sweep resumes. A zoo
that is not installed is left out. 130 networks take about 80 minutes on two cores.
"""
