"""Design spaces: which candidates of a task exist."""
