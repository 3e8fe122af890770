"""Cost models, their checkpoints and their metrics."""
