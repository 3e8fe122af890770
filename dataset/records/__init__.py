"""Records of a dataset: schema, store, splits, exchange and datasheet."""
