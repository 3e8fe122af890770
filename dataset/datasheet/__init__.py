"""The datasheet beside a dataset: what it holds, how it was made, where its limits are."""
