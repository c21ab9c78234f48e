"""Moves of replicas, and drains of nodes."""
