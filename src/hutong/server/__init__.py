"""A node: its settings, its parts, and the programs that run it."""
