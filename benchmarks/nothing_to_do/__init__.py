"""Runs of `foretune tune` with all tasks in the database, and the distribution of their time.

    python -m benchmarks.nothing_to_do
    python -m benchmarks.nothing_to_do --networks resnet18 bert_base --runs 5

Each network is tuned once, from an empty database and for a short time, and is then run repeatedly.
"""
