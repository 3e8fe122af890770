"""Deep Q-learning of how to search a task (Fasor, section 6.2), with a pretrained cost model as environment."""
