"""Nodes: their figures, and what a cluster has where."""
