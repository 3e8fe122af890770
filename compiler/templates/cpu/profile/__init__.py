"""Costs of register tiles on one machine, and the sample programs that measure them."""
