"""Which of a task's templates is the fastest: what the closed form, the light profiler and the model say."""
