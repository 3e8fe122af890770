"""Import of PyTorch modules and ONNX files into Relax, and repairs of what TVM's importers lack."""
