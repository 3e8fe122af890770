"""Deep Q-learning of how to search a task (Fasor, section 6.2), in the environment of a cost model."""
