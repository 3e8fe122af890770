"""Bolt: advice to the designer of a network (section 3.3)."""
