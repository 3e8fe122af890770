"""Search strategies: propose candidates of one task round by round and learn from their latencies."""
