"""Task planners: which task is searched next, and how much it may measure."""
