"""Whole nodes in virtual time, from a seed: see docs/simulation.md."""
