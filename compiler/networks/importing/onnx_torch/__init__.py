"""ONNX graphs as PyTorch modules, so that `torch.export` follows symbolic extents through them."""
