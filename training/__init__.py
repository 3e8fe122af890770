"""Training, evaluation, comparison and transfer of cost models."""
