"""Search of a task by a parent's program: the reuse-based tuner of ETO (section 5), ranked by a model."""
