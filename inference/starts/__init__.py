"""Start sources: candidates that a search begins with."""
