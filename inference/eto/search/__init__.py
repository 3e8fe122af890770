"""Search of a task from its parent's program: ETO's reuse-based tuner (section 5), ranked by a model."""
