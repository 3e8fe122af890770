"""Dataset generation: device workers, batches between noise probes, progress and summary."""
