"""Tuned networks compared with a user's other choices: PyTorch eager, torch.compile, ONNX Runtime, OpenVINO.

    python -m benchmarks.rivals
    python -m benchmarks.rivals --networks squeezenet resnet18 -- search=high_efficiency
    python -m benchmarks.rivals --target cuda --networks resnet18 -- budget_s=300

Each network is tuned by `foretune tune` from an empty database and timed in turns with its rivals, each in a
separate process. Measured networks are kept in `outputs/benchmarks/rivals` until the commit changes, or
beyond it with `--keep`, so a stopped benchmark resumes. 13 networks take about 45 minutes on two cores. On a
GPU, PyTorch's engines are the only rivals.
"""
