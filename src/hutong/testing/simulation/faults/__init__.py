"""Faults carried out: of one node, of a cluster, and those that are aimed at one rule of in-sync sets."""
