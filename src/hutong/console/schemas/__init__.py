"""Schemas: subjects of the node's registry, their versions and levels."""
