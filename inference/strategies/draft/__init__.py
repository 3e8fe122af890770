"""Draft-then-verify search: a draft model rates decisions, and the best drafts are replayed."""
