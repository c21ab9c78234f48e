"""Plans: which clients, which faults and which settings a simulation has, as values, and how a seed draws them."""
