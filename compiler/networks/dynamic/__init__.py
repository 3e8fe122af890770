"""Networks of dynamic shapes: symbols with ranges, export with symbolic extents, conversion, lowering."""
