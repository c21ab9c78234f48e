"""Nodes of a clustered bus in virtual time."""
