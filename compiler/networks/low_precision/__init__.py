"""Networks in bfloat16 and in 8-bit integers."""
