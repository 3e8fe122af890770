"""Ratings of templates by the closed form, the light profiler and the model, compared with latencies."""
