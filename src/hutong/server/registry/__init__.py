"""The schema registry as a part of a node."""
