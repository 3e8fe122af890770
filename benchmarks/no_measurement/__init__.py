"""Networks tuned without a measurement, beside the same networks tuned by the default search.

    python -m benchmarks.no_measurement
    python -m benchmarks.no_measurement --networks squeezenet --runs 3

Each network is tuned by both from an empty database and exported, and the two are timed side by side. Runs
are kept in `outputs/benchmarks/no_measurement` until the commit changes.
"""
