"""Delivery: consumers, which receive, and producers, which write with back-pressure."""
