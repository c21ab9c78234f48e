"""The simulated network: connections between processes, and the faults of links."""
