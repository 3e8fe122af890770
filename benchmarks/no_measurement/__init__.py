"""Networks tuned without a measurement, and by templates alone, compared with the default search.

    python -m benchmarks.no_measurement
    python -m benchmarks.no_measurement --networks squeezenet --runs 3

Each network is tuned by all three from an empty database and exported, and they are timed side by side. Runs
are kept in `outputs/benchmarks/no_measurement` until the commit changes.
"""
