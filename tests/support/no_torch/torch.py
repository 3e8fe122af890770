"""Stands for torch in processes with this folder on PYTHONPATH: torch is not installed there."""

raise ModuleNotFoundError("No module named 'torch'", name="torch")
