"""Networks of dynamic shapes: one library for all sizes, compared with other engines size by size."""
