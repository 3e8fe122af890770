"""Design spaces, which define the candidates of a task."""
