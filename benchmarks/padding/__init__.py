"""First layers in bfloat16, with padded and with unpadded input channels (Bolt, section 3.2.3)."""
