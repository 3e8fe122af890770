"""Choice of the tasks to measure next: random tasks, or tasks on which an ensemble disagrees."""
