"""One training: data, labels, Lightning module, outcome and card."""
