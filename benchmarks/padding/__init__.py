"""First layers in bfloat16: input channels filled up, windows flattened, or neither (Bolt, section 3.2.3)."""
