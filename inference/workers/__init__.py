"""Search processes and the messages between them and the tuner."""
