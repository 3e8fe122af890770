"""Averages of channels in depthwise convolutions, a partial reduction as their epilogue (Bolt, section 3.1).

    python -m benchmarks.pooling

On layers of EfficientNet-B0 and MobileNetV3 with squeeze and excitation: the convolution alone, an average by
a function of its own behind it, and both by one function. All convolutions have the most promising template;
the average is the fastest of 32 random programs. They take turns. Two minutes.
"""
