"""Selection of reuse pairs: the optimisation-choice graph (ETO, section 6)."""
