"""Templates on the shapes of BERT, ResNet and MobileNetV2, as shares of the cores' peak (Bolt, Figure 1)."""
