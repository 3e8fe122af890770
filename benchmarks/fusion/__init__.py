"""Back-to-back fusion beside separate functions, all tuned: Tables 1 and 2 of Bolt, MobileNetV2."""
