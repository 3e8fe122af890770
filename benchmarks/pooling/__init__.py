"""Averages of channels in depthwise convolutions, a partial reduction as their epilogue (Bolt, section 3.1).

    python -m benchmarks.pooling

The layers come from EfficientNet-B0 and MobileNetV3 with squeeze and excitation. Contestants are the
convolution alone, the convolution followed by a separate average function, and both in one function. All
convolutions use the most promising template; the average is the fastest of 32 random programs. They take
turns. The benchmark lasts two minutes.
"""
