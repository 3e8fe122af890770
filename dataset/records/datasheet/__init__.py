"""Datasheet of a dataset: its contents, its collection and its limits."""
