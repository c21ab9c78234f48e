"""Produce: checks of batches, admission to transactions, back-pressure, and the fast path of a repeating producer."""
