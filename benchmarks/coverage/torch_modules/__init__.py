"""Coverage of PyTorch's operators: small modules, each converted, compiled and compared with PyTorch.

    python -m benchmarks.coverage.torch_modules
    python -m benchmarks.coverage.torch_modules --most 50         # 50 more cases, then stop
    python -m benchmarks.coverage.torch_modules --sample 20       # every 20th case or so
    python -m benchmarks.coverage.torch_modules --cases pooling   # names that contain a word

The modules are what users write with torch.nn, torch.nn.functional and tensor methods. No case is left out
because it fails. A case passes if each output element is close to PyTorch's. It is refused if an error names
the operator before any search. Completed cases are kept in `outputs/benchmarks/coverage_torch_modules`, so a
stopped run resumes. 750 cases take about 25 minutes on one core.
"""
