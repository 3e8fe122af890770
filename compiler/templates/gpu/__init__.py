"""Hardware-native templates for NVIDIA GPUs, in Triton: products, convolutions, two products back to back."""
