"""Search strategies: propose candidates of one task round by round and hear their latencies."""
