"""Schemas that a registry keeps: its options, a client of its REST API, and texts that need no other."""
