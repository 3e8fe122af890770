"""The work of `foretune-generate`: tasks in lanes, batches between noise probes, progress and summary."""
