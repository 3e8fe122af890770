"""Families of tasks (FamilySeer, section 5.1): groupings, their registry, and stock cost models by family."""
