"""Tuned networks beside what a user would pick instead: PyTorch eager, torch.compile, ONNX Runtime, OpenVINO.

    python -m benchmarks.rivals
    python -m benchmarks.rivals --networks squeezenet resnet18 -- search=high_efficiency
    python -m benchmarks.rivals --target cuda --networks resnet18 -- budget_s=300

Each network is tuned by `foretune tune` from an empty database and timed in turns with its rivals, each in a
process of its own. Networks that were measured are kept in `outputs/benchmarks/rivals` until the commit
changes, or beyond it with `--keep`: a benchmark that was stopped goes on where it was. 13 networks take about
45 minutes on two cores. On a GPU the rivals are those of PyTorch.
"""
