"""Coverage of further PyTorch networks: small ones of public zoos, without a search.

    python -m benchmarks.coverage.small_networks
    python -m benchmarks.coverage.small_networks --cases hf_ --most 10

Each network has random weights, few layers and small inputs. It is converted, compiled without a search and
compared with PyTorch. None of the networks is in `benchmarks.coverage`, which runs `foretune tune`.
Completed networks are kept in `outputs/benchmarks/coverage_networks`, so a stopped run resumes.
"""
