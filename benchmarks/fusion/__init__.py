"""Back-to-back fusion against separate functions, all tuned: Tables 1 and 2 of Bolt, MobileNetV2."""
