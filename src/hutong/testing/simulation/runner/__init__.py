"""Many simulations: seeds in parallel, plans as files, smaller plans, readable traces."""
