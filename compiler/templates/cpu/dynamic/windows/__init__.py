"""Windows over single channels of symbolic images: depthwise convolutions and pooling."""
