"""ONNX operators in simpler ones of ONNX, where TVM's importer lacks an operator or gets it wrong."""
