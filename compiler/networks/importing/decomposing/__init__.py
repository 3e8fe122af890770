"""Parts of the decomposition of PyTorch programs that are more than one operator each."""
