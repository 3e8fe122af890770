"""Task planners: choose the next task to search and the number of programs that it may measure."""
