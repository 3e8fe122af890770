"""First layers in bfloat16: channels filled up, columns folded into channels, or neither (Bolt, 3.2.3)."""
