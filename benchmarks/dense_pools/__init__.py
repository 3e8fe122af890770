"""Dense pools: many measured programs of every task of TenSet's test networks, to compare cost models on."""
