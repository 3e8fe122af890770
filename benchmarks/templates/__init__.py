"""Templates on the shapes of BERT and ResNet, as shares of the cores' peak (Bolt, Figure 1)."""
