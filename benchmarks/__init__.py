"""Benchmarks of Foretune: one folder each, results in `results/`, tables of the pages in `figures.py`."""
