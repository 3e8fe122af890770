"""First layers in bfloat16, with their input channels filled up or as they are (Bolt, section 3.2.3)."""
